# After prelude.tcl, in tclsh.
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
