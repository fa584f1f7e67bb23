# After prelude.tcl, where Lmod's tcl2lua.so evaluates a Tcl file in Lmod's own process: its words
# come after one of tcl2lua.so's own.
set ::argv0 [lindex $::argv 1]
set ::argv [lreplace $::argv 1 1]
incr ::argc -1
namespace eval ::tcl::becalm $::tcl::becalm::births
::tcl::becalm::follow_others
set ::tcl::becalm::tool [file normalize $::argv0]
file exists /.becalm:user:known
namespace eval ::tcl::becalm {
    # Tcl looks for packages beside its program, which is the first file that it is given: this one.
    proc beside {interpreter} {
        variable libraries
        foreach {own of_script} $libraries {}
        set path [interp eval $interpreter {set ::auto_path}]
        set at [lsearch -exact $path $own]
        if {$at >= 0} {
            interp eval $interpreter [list set ::auto_path [lreplace $path $at $at $of_script]]
        }
        return
    }

    proc created_beside {command code result operation} {
        if {[is_create $command]} {
            # The result is that of whoever heard of it before.
            foreach interpreter [interp slaves] {
                beside $interpreter
            }
        }
        return
    }

    apply {{} {
        variable libraries
        foreach program [list [info nameofexecutable] $::argv0] {
            lappend libraries [file join [file dirname [file dirname $program]] lib]
        }
        beside {}
        trace add execution ::interp leave ::tcl::becalm::created_beside
        trace add execution ::tcl::info::nameofexecutable enter {::tcl::becalm::unrepeatable program}
    } ::tcl::becalm}
}
if {[catch {source $::argv0} ::tcl::becalm::result ::tcl::becalm::options] == 1} {
    # As tcl2lua.so says it, without the line that calls the script here; prelude.lua gives Lmod the
    # status.
    set ::tcl::becalm::result "\n    invoked from within\n\"source \$::argv0\""
    set ::tcl::becalm::options [dict get $::tcl::becalm::options -errorinfo]
    if {[string match *$::tcl::becalm::result $::tcl::becalm::options]} {
        set ::tcl::becalm::options [string range $::tcl::becalm::options 0 \
            end-[string length $::tcl::becalm::result]]
    }
    puts stderr $::tcl::becalm::options
    set ::env(BECALM_TCL_FAILED) 1
}
