# What follows is for Modules' own interpreter only, where two commands have another answer than a
# call would give: the terminal's size needs no other program, and the working directory is asked
# for in vain where a path is absolute.
namespace eval ::tcl::becalm {
    # One that was made for a modulefile is to make none: what code does that another has it evaluate, out
    # of its own sight, under limits or without commands, is not followed.
    variable barren {
        proc is_create {command} {
            return [string match [lindex $command 1]* create]
        }

        proc is_to_create_none {command operation} {
            if {[is_create $command]} {
                late note unrepeatable:interpreter
            }
            hides $command
            return
        }

        follow_environment
        follow_called
        trace add execution ::interp enter ::tcl::becalm::is_to_create_none
        follow "$known$others$clocks"
        follow_traces
    }

    # Words may be cut short.
    proc is_create {command} {
        return [string match [lindex $command 1]* create]
    }

    # A new interpreter asks what its user is called. It is for a modulefile, with which all may end.
    proc creates {command operation} {
        if {[is_create $command]} {
            late note_names
            file exists /.becalm:user
        }
        return
    }

    proc created {command code result operation} {
        if {![is_create $command]} return
        file exists /.becalm:user:known
        if {$code == 0} {
            variable hooks
            variable barren
            # Where they cannot be, becalm lets go before anybody hears of the error.
            if {[interp issafe $result] || [catch {
                interp eval $result [list namespace eval ::tcl::becalm "$hooks\n$barren"]
            }]} {
                late note unrepeatable:interpreter
            }
        }
        return
    }

    # What `stty size` prints here, or its error; empty where that is not known.
    variable terminal {%TERMINAL%}

    proc execute {args} {
        variable terminal
        if {$args eq {stty size} && $terminal ne {} && [finds_stty]} {
            late note terminal
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
            trace add command ::getAbsolutePath {rename delete} {::tcl::becalm::late note cwd ;#}
            file exists /.becalm:getcwd
        }
        tailcall ::tcl::becalm::pwd {*}$args
    }

    proc follow_others {} {
        variable others
        follow $others
        set others {}
        return
    }

    # Modules asks once, and uses the directory for each relative path from then on.
    proc resolves {command operation} {
        if {[is_relative [lindex $command 1]]} {
            late note cwd
        }
        return
    }

    # Modules itself links to no variable of the environment, and to trace links costs a tenth of its time.
    proc sources {command operation} {
        set path [lindex $command end]
        if {![file isfile $path] || ![file readable $path]} return
        set file [::open $path]
        # A comment may go on in the next line: then this one counts.
        if {[regexp -line {^\s*[^#\s]} [::read $file]]} {
            follow_others
        }
        ::close $file
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
namespace eval ::tcl::becalm {
    variable needed {
        execute args {::tcl::becalm::exec {*}$args}
        directory args {::tcl::becalm::pwd {*}$args}
        other {ensemble word args} {::list ::tcl::becalm::interp $word}
    }
    follow_environment
    follow $known
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
trace add execution ::source enter ::tcl::becalm::sources
rename ::exec ::tcl::becalm::exec
interp alias {} ::exec {} ::tcl::becalm::execute
rename ::pwd ::tcl::becalm::pwd
interp alias {} ::pwd {} ::tcl::becalm::directory
set ::tcl::becalm::tool [file normalize $::argv0]
file exists /.becalm:begun
namespace eval ::tcl::becalm {
    # Before it comes to a modulefile, Modules asks for some forty variables: they are noted at once.
    late note later
    variable later {}
    trace add execution ::exit enter {::tcl::becalm::late note_names}
    follow $clocks
    follow_called
    follow_traces
}
