# After prelude.tcl, in each interpreter of Lmod's own process: tcl2lua.tcl's, and that of a modulefile, which
# the former makes, and which is to make none (script.tcl).
set ::tcl::becalm::is_modulefiles 0
# prelude.lua has said so.
set ::tcl::becalm::said(=LMOD_VERSION) {}

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
    } else {
        interp eval $result {set ::tcl::becalm::is_modulefiles 1}
    }
    return
}

::tcl::becalm::follow_environment
::tcl::becalm::follow_called
trace add execution ::interp enter ::tcl::becalm::makes
file exists /.becalm:user:known
::tcl::becalm::follow "$::tcl::becalm::known$::tcl::becalm::others$::tcl::becalm::clocks"
::tcl::becalm::follow_traces
