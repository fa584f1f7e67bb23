# What most modulefiles never call, and what it costs time to make procedures of in each interpreter: prelude.tcl's
# `late` has it evaluated, in the namespace of its own.

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
# for what it says, below TMPDIR.
proc starts {command operation} {
    note_variable PATH
    note_names
    set words [lrange $command 1 end]
    if {$words eq {-ignorestderr 2>/dev/null manpath}} return
    if {[is_known_program $words]} {
        note_variable TMPDIR
        file exists /.becalm:temporary
    } else {
        note unrepeatable:program
    }
    return
}

# Whether exec starts one program that is followed (programs.rs), and waits for it.
proc is_known_program {words} {
    foreach name {%LOADER%} {
        if {[info exists ::env($name)] && $::env($name) ne {}} {
            return 0
        }
    }
    foreach option {-ignorestderr -keepnewline --} {
        if {[lindex $words 0] eq $option} {
            set words [lrange $words 1 end]
        }
    }
    foreach word $words {
        if {$word ne {2>/dev/null} && [regexp {^2?[|<>&]|&$} $word]} {
            return 0
        }
    }
    return [regexp {^(?:(?:/usr)?/bin/)?(?:%PROGRAMS%)$} [lindex $words 0]]
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
