# After prelude.tcl, in each interpreter of Lmod's own process: tcl2lua.tcl's, and that of a modulefile, which
# the former makes, and which is to make none (script.tcl).
follow_others
variable is_modulefiles 0

proc makes {command operation} {
    variable is_modulefiles
    if {![is_create $command]} return
    if {$is_modulefiles} {
        note unrepeatable:interpreter
    } else {
        file exists /.becalm:user
        # From then on: before there is one, it costs as much as all else here.
        trace add execution ::interp leave ::tcl::becalm::made
    }
    return
}

proc made {command code result operation} {
    if {[is_create $command]} {
        # A safe one reads no init.tcl.
        if {$code != 0 || [interp issafe $result]} {
            note unrepeatable:interpreter
        } else {
            interp eval $result {set ::tcl::becalm::is_modulefiles 1}
        }
    }
    return
}

trace add execution ::interp enter ::tcl::becalm::makes
file exists /.becalm:user:known
