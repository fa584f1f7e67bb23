# After prelude.tcl, in each interpreter of Lmod's own process: tcl2lua.tcl's, and that of a modulefile, which
# the former makes, and which is to make none (script.tcl).
set ::tcl::becalm::is_modulefiles 0
# prelude.lua has said so.
set ::tcl::becalm::said(=LMOD_VERSION) {}
# Only to be read by each interpreter, seldom.tcl costs a tenth of what all of this does.
set ::tcl::becalm::seldom {source %SELDOM%}
lappend ::tcl::becalm::called source

# As that of seldom.tcl, where nothing is kept, or noted later, and nothing is ordered.
proc ::tcl::becalm::reads {array name operation} {
    variable said
    if {$operation eq {array}} {
        note env
    } else {
        set said(=$name) {}
        note env:[plain $name]
    }
    return
}

# Words may be cut short.
proc ::tcl::becalm::makes {command operation} {
    hides $command
    if {![string match [lindex $command 1]* create]} return
    variable is_modulefiles
    if {$is_modulefiles} {
        late note unrepeatable:interpreter
    } else {
        # A new interpreter asks what its user is called.
        file exists /.becalm:user
        # From then on: before there is one, it costs as much as all else here.
        variable follows
        set follows 1
        trace add execution ::interp leave ::tcl::becalm::made
        set follows 0
    }
    return
}

proc ::tcl::becalm::made {command code result operation} {
    if {![string match [lindex $command 1]* create]} return
    # A safe one reads no init.tcl.
    if {$code != 0 || [interp issafe $result]} {
        late note unrepeatable:interpreter
        return
    }
    interp eval $result {set ::tcl::becalm::is_modulefiles 1}
    # Where it makes one, Lmod calls interp some fifty times for the modulefile, each time with both traces, and
    # neither makes another interpreter nor hides a command.
    set frame [info frame -2]
    if {[dict exists $frame proc] && [dict get $frame proc] eq {::execute-modulefile}
        && [dict exists $frame file] && [string match */tcl2lua.tcl [dict get $frame file]]} {
        variable follows
        set follows 1
        trace remove execution ::interp enter ::tcl::becalm::makes
        trace remove execution ::interp leave ::tcl::becalm::made
        set follows 0
    }
    return
}

trace add variable ::env array ::tcl::becalm::follow_reads
trace add variable ::env {read array} ::tcl::becalm::read
trace add variable ::env {write unset} {::tcl::becalm::late changes}
::tcl::becalm::follow_called
trace add execution ::interp enter ::tcl::becalm::makes
file exists /.becalm:user:known
::tcl::becalm::follow "$::tcl::becalm::known$::tcl::becalm::others$::tcl::becalm::clocks"
::tcl::becalm::follow_timers
trace add execution ::trace enter ::tcl::becalm::traces
