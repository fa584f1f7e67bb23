# What follows is for Modules' own interpreter only, where two commands have another answer than a
# call would give: the terminal's size needs no other program, and the working directory is asked
# for in vain where a path is absolute.
namespace eval ::tcl::becalm {
    # What `stty size` prints here, or its error; empty where that is not known.
    variable terminal {%TERMINAL%}

    proc execute {args} {
        variable terminal
        if {$args eq {stty size} && $terminal ne {} && [finds_stty]} {
            note terminal
            lassign $terminal code text
            return -code $code $text
        }
        tailcall ::tcl::becalm::exec {*}$args
    }

    # Whether the first stty of the search path is the system's.
    proc finds_stty {} {
        if {[info exists ::env(PATH)]} {
            foreach directory [split $::env(PATH) :] {
                if {[file executable $directory/stty]} {
                    return [expr {$directory in {/bin /usr/bin}}]
                }
            }
        }
        return 0
    }

    proc directory {args} {
        variable tool
        set frame [info frame -1]
        if {$args eq {} && [dict exists $frame file] && [dict exists $frame proc]
            && [dict get $frame file] eq $tool && [dict get $frame proc] eq {::getAbsolutePath}
            && ![is_relative [uplevel 1 {set path}]]
        } then {
            trace add execution ::getAbsolutePath enter ::tcl::becalm::resolves
            trace add command ::getAbsolutePath {rename delete} {::tcl::becalm::note cwd ;#}
            file exists /proc/becalm/getcwd
        }
        tailcall ::tcl::becalm::pwd {*}$args
    }

    # Modules asks once, and uses the directory for each relative path from then on.
    proc resolves {command operation} {
        if {[is_relative [lindex $command 1]]} {
            note cwd
        }
        return
    }

    # Other words are interp's own to understand.
    proc other {ensemble word args} {
        if {[string match $word* create]} {
            return [list ::tcl::becalm::create $word]
        }
        return [list ::tcl::becalm::interp $word]
    }

    proc is_relative {path} {
        return [expr {$path ne {} && [string index $path 0] ni {/ $}}]
    }
}
# Modules calls interp some hundred times for each modulefile, and a trace takes part in each call: so
# only one subcommand is traced, by a name of its own.
rename ::interp ::tcl::becalm::interp
::tcl::becalm::interp alias {} ::tcl::becalm::create {} ::tcl::becalm::interp
trace add execution ::tcl::becalm::create enter ::tcl::becalm::creates
trace add execution ::tcl::becalm::create leave ::tcl::becalm::created
namespace ensemble create -command ::interp -prefixes 0 -unknown ::tcl::becalm::other -map [apply {{} {
    foreach name {
        alias aliases bgerror cancel children debug delete eval exists expose hidden hide invokehidden
        issafe limit marktrusted recursionlimit share slaves target transfer
    } {
        dict set map $name [list ::tcl::becalm::interp $name]
    }
    return [dict set map create {::tcl::becalm::create create}]
}}]
rename ::exec ::tcl::becalm::exec
interp alias {} ::exec {} ::tcl::becalm::execute
rename ::pwd ::tcl::becalm::pwd
interp alias {} ::pwd {} ::tcl::becalm::directory
set ::argv0 [lindex $::argv 0]
set ::argv [lrange $::argv 1 end]
incr ::argc -1
set ::tcl::becalm::tool [file normalize $::argv0]
file exists /proc/becalm/begun
if {[catch {source $::argv0} ::tcl::becalm::result] == 1} {
    # As tclsh says it of a script, without the line that calls it here.
    set ::tcl::becalm::result "\n    invoked from within\n\"source \$::argv0\""
    if {[string match *$::tcl::becalm::result $::errorInfo]} {
        set ::errorInfo [string range $::errorInfo 0 end-[string length $::tcl::becalm::result]]
    }
    puts stderr $::errorInfo
    exit 1
}
