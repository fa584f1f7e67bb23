# Evaluated in a namespace of its own in each interpreter, of which each has an environment to be read, to say
# what Tcl does without a system call: script.tcl has Modules' interpreters evaluate it, embedded.tcl Lmod's.
# A note is a lookup of a path that is not there, right below the root: of each directory
# above a path, Tcl makes two calls (notes.rs). Not one byte of the script's output may change by
# it: nothing is left in the global namespace, no error is raised and caught, and no command is
# replaced here (script.tcl replaces three). The namespace and `ordered` are there, and comments are taken out, by
# who puts it into init.tcl (tool.rs). Names are whole here, as what a file's own commands are, Tcl does not compile,
# and what is evaluated in a namespace, it does.
array set ::tcl::becalm::said {}
set ::tcl::becalm::tool {}
set ::tcl::becalm::follows 0

proc ::tcl::becalm::read {array name operation} {
    variable said
    if {$operation eq {array} || ![info exists said(=$name)]} {
        tailcall ::tcl::becalm::late reads $array $name $operation
    }
    return
}

# Whenever all of it is asked for, Tcl puts its own trace before all others. That one ends the
# reading of what is not there with an error, and nobody else hears of it. So a trace of the same is
# behind Tcl's, once that has gone to the first place before, and puts ours before it again. Where it has not
# yet (`ordered` is 0), all of the environment counts from then on.
proc ::tcl::becalm::follow_reads {args} {
    variable follows
    set follows 1
    trace remove variable ::env {read array} ::tcl::becalm::read
    trace add variable ::env {read array} ::tcl::becalm::read
    set follows 0
    return
}

# Whether an element was there decides what comes of it, and no trace tells of one that was not.
proc ::tcl::becalm::unsets {command operation} {
    if {[string match *env(* $command]} {
        late note env
    }
    return
}

# An element that is linked to is read without the array's trace.
proc ::tcl::becalm::linked {command operation} {
    if {[string match *env(* $command]} {
        late note unrepeatable:link
    }
    return
}

# What most modulefiles never call, and what it costs time to make procedures of in each interpreter.
set ::tcl::becalm::seldom {
    # Letters, digits and _ stand for themselves, all other bytes are %XX.
    proc plain {text} {
        if {[string is wordchar -strict $text] && [string is ascii $text]} {
            return $text
        }
        set plain {}
        foreach byte [split [encoding convertto [encoding system] $text] {}] {
            if {[string match {[A-Za-z0-9_]} $byte]} {
                set plain $plain$byte
            } else {
                set plain $plain[format %%%02X [scan $byte %c]]
            }
        }
        return $plain
    }

    proc note {text} {
        variable said
        if {![info exists said($text)]} {
            set said($text) {}
            file exists /.becalm:$text
        }
        return
    }

    # That a variable was asked for; where names are noted together, later (script.tcl).
    proc note_variable {name} {
        variable later
        set name [plain $name]
        if {[info exists later] && [string length $name] < 64} {
            lappend later $name
        } else {
            note env:$name
        }
        return
    }

    proc note_names {args} {
        variable later
        if {[info exists later]} {
            set names [lsort -unique $later]
            unset later
            for {set first 0} {$first < [llength $names]} {incr first 50} {
                note envs:[join [lrange $names $first $first+49] :]
            }
            note all
        }
        return
    }

    # Modules keeps the whole environment to put it back. It does so in procedures of its own
    # file, which a site may have replaced by others.
    proc is_kept {} {
        variable tool
        # Evaluated by another interpreter, it has no callers.
        if {[info frame] < 4} {
            return 0
        }
        set frame [info frame -3]
        return [expr {[dict exists $frame file] && [dict exists $frame proc]
            && [dict get $frame file] eq $tool
            && [dict get $frame proc] in {::pushSettings ::saveSettings ::restoreSettings}}]
    }

    proc reads {array name operation} {
        variable said
        variable ordered
        if {$operation eq {array}} {
            if {![info exists said(env)] && ![is_kept]} {
                set command {}
                if {[info frame] > 2 && [dict exists [info frame -2] cmd]} {
                    set command [dict get [info frame -2] cmd]
                }
                # One element, which need not be there.
                if {$ordered && [regexp {^array (?:get|names) (?:::)?env (\w+)\s*$} $command all one]} {
                    note_variable $one
                } else {
                    note env
                }
            }
        } elseif {![is_kept]} {
            set said(=$name) {}
            note_variable $name
        }
        return
    }

    # What is appended to shows what was there, and no trace of reads tells so.
    proc changes {name element operation} {
        note changed
        if {[is_kept]} return
        if {$element ne {}} {
            note_variable $element
        } elseif {$operation eq {unset}} {
            # With it all traces of it go, and Modules may put it back.
            note unrepeatable:environment
        }
        return
    }

    # A command is about to be called that gives another answer each time.
    proc unrepeatable {what args} {
        note_names
        note unrepeatable:$what
    }

    # Of other programs nobody knows what they depend on. Before one is started, Tcl makes a file
    # for what it says.
    proc starts {command operation} {
        note_names
        if {[lrange $command 1 end] ne {-ignorestderr 2>/dev/null manpath}} {
            note unrepeatable:program
        }
        return
    }

    proc opens {command operation} {
        set what [lindex $command 1]
        if {[llength $command] > 2} {
            # It may be to write, which ends all.
            note_names
        }
        if {[string index $what 0] ne {|}} return
        set pager [pager [string range $what 1 end]]
        if {[llength $command] == 3 && [lindex $command 2] eq {w} && $pager ne {}} {
            file exists /.becalm:pager:$pager
        } else {
            note unrepeatable:program
        }
        return
    }

    # The words of a pager as Modules starts it, or none.
    proc pager {words} {
        if {![string is list $words] || [lrange $words end-1 end] ne {>@stderr 2>@stderr}} return
        set words [lrange $words 0 end-2]
        set program [lindex $words 0]
        if {[string index $program 0] ne {/} || ![file executable $program]
            || [regexp {[|<>&]} $words]} return
        return [plain [join $words \0]]
    }

    # The place of a standard channel is that of whoever has it open, too.
    proc positioned {command operation} {
        if {[lindex $command 1] in {stdin stdout stderr}} {
            note unrepeatable:position
        }
        return
    }

    # Who takes these traces away has to name them, or to list what there is. Words may be cut short.
    proc traced {command operation} {
        variable called
        lassign $command trace verb kind name operations
        if {[string match $verb* info] || [string match $verb* vinfo]
            || ([string match {[rv]*} $verb] && [string match *becalm* $command])} {
            note unrepeatable:traces
        } elseif {[string match $verb* add] && [string match $kind* execution]
            && ([string match *step* $operations] || [string trimleft $name :] in $called)} {
            # What is called here would be shown.
            note unrepeatable:traces
            unfollow
        }
        return
    }

    # Takes all traces away.
    proc unfollow {} {
        variable called
        variable known
        variable others
        variable clocks
        variable follows
        set follows 1
        trace remove variable ::env {read array} ::tcl::becalm::read
        trace remove variable ::env array ::tcl::becalm::follow_reads
        trace remove variable ::env {write unset} {::tcl::becalm::late changes}
        foreach {name operation hook} "$known$others$clocks" {
            if {[namespace which -command $name] ne {}} {
                trace remove execution $name $operation $hook
            }
        }
        foreach hook {makes is_to_create_none} {
            trace remove execution ::interp enter ::tcl::becalm::$hook
        }
        trace remove execution ::interp leave ::tcl::becalm::made
        foreach name $called {
            trace remove command ::$name {rename delete} ::tcl::becalm::replaced
        }
        trace remove execution ::trace enter ::tcl::becalm::traces
        return
    }

    # To have an ensemble of Tcl's, such as string, lead elsewhere is to replace it.
    proc ensembles {command operation} {
        if {[string match {* conf* -*} $command]} {
            replaced {} {} {}
        }
        return
    }

    # Libraries may do anything. Modules' own is known; it has the clock, too.
    proc loaded {command code result operation} {
        if {[file tail [lindex $command 1]] ne {libtclenvmodules.so}} {
            note unrepeatable:library
        }
        foreach name {initStateClockSeconds parseDateTimeArg} {
            if {[namespace which -command ::$name] ne {}} {
                trace add execution ::$name enter {::tcl::becalm::unrepeatable clock}
            }
        }
        return
    }
}

# Calls one of these.
proc ::tcl::becalm::late {name args} {
    variable seldom
    if {$seldom ne {}} {
        set procedures $seldom
        set seldom {}
        namespace eval ::tcl::becalm $procedures
    }
    tailcall ::tcl::becalm::$name {*}$args
}

# A modulefile may make a command of its own that is called as one that is called here, such as a procedure
# `info` that prints, and it would be called here, too. So before the first of them goes, becalm says that this
# answer is not kept, and nothing here does anything any more. (`append` is not called: Modules 5.7 renames it.)
set ::tcl::becalm::called {
    array dict encoding expr file for foreach format if incr info interp join lappend lassign lindex llength lrange
    lsort namespace proc regexp return scan set split string tailcall trace unset variable
}

# Name, arguments and body of what has to do something even then.
set ::tcl::becalm::needed {}

proc ::tcl::becalm::replaced {command new operation} {
    variable needed
    late note unrepeatable:command
    foreach name [info procs ::tcl::becalm::*] {
        proc $name args {}
    }
    foreach {name words body} $needed {
        proc $name $words $body
    }
    return
}

# One that is hidden is gone as well, and no trace of it tells so. Where less may be called within each other, there is
# less room for what is called here. (hide, hidden, recursionlimit, or
# shorter: nothing else of interp's begins so.)
proc ::tcl::becalm::hides {command} {
    if {[string match {[hr]*} [lindex $command 1]]} {
        replaced {} {} {}
    }
    return
}

proc ::tcl::becalm::follow_called {} {
    variable called
    foreach name $called {trace add command ::$name {rename delete} ::tcl::becalm::replaced}
    return
}

# What is traced everywhere. Tcl compiles the last ones into others' code: once one of those is traced, it compiles
# anew each command that it comes to.
set ::tcl::becalm::known {
    ::exec enter {::tcl::becalm::late starts}
    ::open enter {::tcl::becalm::late opens}
    ::tell enter {::tcl::becalm::late positioned}
    ::seek enter {::tcl::becalm::late positioned}
    ::load leave {::tcl::becalm::late loaded}
    ::time enter {::tcl::becalm::late unrepeatable clock}
    ::tcl::mathfunc::rand enter {::tcl::becalm::late unrepeatable random}
    ::tcl::namespace::ensemble enter {::tcl::becalm::late ensembles}
    ::tcl::info::cmdcount enter {::tcl::becalm::late unrepeatable process}
    ::tcl::file::atime enter {::tcl::becalm::late unrepeatable access}
}
set ::tcl::becalm::clocks {
    ::tcl::clock::seconds enter {::tcl::becalm::late unrepeatable clock}
    ::tcl::clock::clicks enter {::tcl::becalm::late unrepeatable clock}
    ::tcl::clock::milliseconds enter {::tcl::becalm::late unrepeatable clock}
    ::tcl::clock::microseconds enter {::tcl::becalm::late unrepeatable clock}
}
# Other code than Modules' own may do what Modules never does, and what would cost it time to
# have traced.
set ::tcl::becalm::others {
    ::tcl::namespace::children enter {::tcl::becalm::late unrepeatable traces}
    ::tcl::file::stat enter {::tcl::becalm::late unrepeatable access}
    ::tcl::file::lstat enter {::tcl::becalm::late unrepeatable access}
    ::upvar enter ::tcl::becalm::linked
    ::tcl::namespace::upvar enter ::tcl::becalm::linked
    ::unset enter ::tcl::becalm::unsets
}

proc ::tcl::becalm::follow {names} {
    foreach {name operation hook} $names {trace add execution $name $operation $hook}
    return
}

proc ::tcl::becalm::follow_environment {} {
    variable ordered
    trace add variable ::env array ::tcl::becalm::follow_reads
    if {$ordered} {
        array exists ::env
    }
    follow_reads
    trace add variable ::env {write unset} {::tcl::becalm::late changes}
    # Of two, one is in some releases only.
    foreach name {::timerate ::tcl::unsupported::timerate} {
        if {[namespace which -command $name] ne {}} {
            trace add execution $name enter {::tcl::becalm::late unrepeatable clock}
        }
    }
    return
}

# The last of all, as it is called for each one that comes after it.
proc ::tcl::becalm::follow_traces {} {
    trace add execution ::trace enter ::tcl::becalm::traces
    return
}

# The prelude's own, or others'.
proc ::tcl::becalm::traces {command operation} {
    variable follows
    if {!$follows} {
        tailcall ::tcl::becalm::late traced $command $operation
    }
    return
}
