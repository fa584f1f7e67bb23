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

# Letters, digits and _ stand for themselves, all other bytes are %XX.
proc ::tcl::becalm::plain {text} {
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

proc ::tcl::becalm::note {text} {
    variable said
    if {![info exists said($text)]} {
        set said($text) {}
        file exists /.becalm:$text
    }
    return
}

# Calls one of those of seldom.tcl, which is evaluated then, as `seldom` says.
proc ::tcl::becalm::late {name args} {
    variable seldom
    if {$seldom ne {} && [namespace which -command ::tcl::becalm::$name] eq {}} {
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
    follow_timers
    return
}

# Of two, one is in some releases only.
proc ::tcl::becalm::follow_timers {} {
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
