# Evaluated in a namespace of its own in each interpreter, of which each has an environment to be read, to say
# what Tcl does without a system call: script.tcl has Modules' interpreters evaluate it, embedded.tcl Lmod's.
# A note is a lookup of a path that is not there, right below the root: of each directory
# above a path, Tcl makes two calls (notes.rs). Not one byte of the script's output may change by
# it: nothing is left in the global namespace, no error is raised and caught, and no command is
# replaced here (script.tcl replaces three).
variable said
array set said {}
variable tool {}

# Letters, digits and _ stand for themselves, all other bytes are %XX.
proc plain {text} {
    if {[string is wordchar -strict $text] && [string is ascii $text]} {
        return $text
    }
    set plain {}
    foreach byte [split [encoding convertto [encoding system] $text] {}] {
        if {[string match {[A-Za-z0-9_]} $byte]} {
            append plain $byte
        } else {
            append plain [format %%%02X [scan $byte %c]]
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

proc read {array name operation} {
    variable said
    if {$operation eq {array}} {
        if {![info exists said(env)] && ![is_kept]} {
            set command {}
            if {[info frame] > 2 && [dict exists [info frame -2] cmd]} {
                set command [dict get [info frame -2] cmd]
            }
            # One element, which need not be there.
            if {[regexp {^array (?:get|names) (?:::)?env (\w+)\s*$} $command all one]} {
                note env:[plain $one]
            } else {
                note env
            }
        }
    } elseif {![info exists said(=$name)] && ![is_kept]} {
        set said(=$name) {}
        note env:[plain $name]
    }
    return
}

# A command is about to be called that gives another answer each time.
proc unrepeatable {what args} {
    note unrepeatable:$what
}

# Of other programs nobody knows what they depend on. Before one is started, Tcl makes a file
# for what it says.
proc starts {command operation} {
    if {[lrange $command 1 end] ne {-ignorestderr 2>/dev/null manpath}} {
        note unrepeatable:program
    }
    return
}

proc opens {command operation} {
    set what [lindex $command 1]
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

# What is appended to shows what was there, and no trace of reads tells so.
proc changes {name element operation} {
    note changed
    if {$element ne {} && ![is_kept]} {
        note env:[plain $element]
    }
    return
}

# Whenever all of it is asked for, Tcl puts its own trace before all others. That one ends the
# reading of what is not there with an error, and nobody else hears of it.
proc listed {command code result operation} {
    if {[string match *env* $command]} {
        ::tcl::becalm::follow_reads
    }
    return
}

variable follows 0

proc follow_reads {} {
    variable follows
    set follows 1
    trace remove variable ::env {read array} ::tcl::becalm::read
    trace add variable ::env {read array} ::tcl::becalm::read
    set follows 0
    return
}

# The place of a standard channel is that of whoever has it open, too.
proc positioned {command operation} {
    if {[lindex $command 1] in {stdin stdout stderr}} {
        note unrepeatable:position
    }
    return
}

# Other code than Modules' own may do what Modules never does, and what would cost it time to
# have traced.
proc follow_others {} {
    variable said
    if {![info exists said(others)]} {
        set said(others) {}
        foreach {name hook} {
            ::upvar linked ::tcl::namespace::upvar linked ::unset unsets
            ::tcl::namespace::children {unrepeatable traces}
            ::tcl::file::stat {unrepeatable access} ::tcl::file::lstat {unrepeatable access}
        } {
            trace add execution $name enter ::tcl::becalm::$hook
        }
    }
    return
}

# Whether an element was there decides what comes of it, and no trace tells of one that was not.
proc unsets {command operation} {
    if {[string match *env(* $command]} {
        note env
    }
    return
}

# An element that is linked to is read without the array's trace.
proc linked {command operation} {
    if {[string match *env(* $command]} {
        note unrepeatable:link
    }
    return
}

# Who takes these traces away has to name them, or to list what there is.
proc traced {command operation} {
    variable follows
    if {$follows} return
    set verb [lindex $command 1]
    if {$verb in {info vinfo}
        || ($verb in {remove vdelete} && [string match *becalm* $command])} {
        note unrepeatable:traces
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

# Words may be cut short.
proc is_create {command} {
    return [string match [lindex $command 1]* create]
}

# A new interpreter asks what its user is called.
proc creates {command operation} {
    if {[is_create $command]} {
        file exists /.becalm:user
    }
    return
}

proc is_to_create_none {command operation} {
    if {[is_create $command]} {
        note unrepeatable:interpreter
    }
    return
}

apply {{} {
    ::tcl::becalm::follow_reads
    trace add variable ::env {write unset} ::tcl::becalm::changes
    foreach {name what} {
        ::tcl::clock::seconds clock ::tcl::clock::clicks clock ::time clock
        ::tcl::clock::milliseconds clock ::tcl::clock::microseconds clock
        ::timerate clock ::tcl::unsupported::timerate clock ::tcl::file::atime access ::tcl::mathfunc::rand random
        ::tcl::info::cmdcount process
    } {
        if {[namespace which -command $name] ne {}} {
            trace add execution $name enter [list ::tcl::becalm::unrepeatable $what]
        }
    }
    foreach {name operation hook} {
        ::tcl::array::get leave listed ::tcl::array::names leave listed
        ::exec enter starts ::open enter opens ::tell enter positioned
        ::seek enter positioned ::load leave loaded ::trace enter traced
    } {
        trace add execution $name $operation ::tcl::becalm::$hook
    }
}}
