// Package fleeting runs GitLab's own fleeting code against the plugin: the only judge of a fleeting plugin is the loop
// that a runner really runs.
//
// The binaries are given by environment variables, so that nothing here knows how they are built:
//
//	WINDLASS_GROUP_IN_MEMORY  the example group_in_memory of host/fleeting (protocol tests)
package fleeting
