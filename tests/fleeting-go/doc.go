// Package fleeting runs GitLab's own fleeting code against the plugin: the only judge of a fleeting plugin is the loop
// that a runner really runs.
//
// The binaries are given by environment variables, so that nothing here knows how they are built. A test whose binary
// is not named is skipped, and says so:
//
//	WINDLASS_GROUP_IN_MEMORY    the example group_in_memory of host/fleeting: the protocol alone
//	WINDLASS_FLEETING_PLUGIN    the plugin, fleeting-plugin-scaleway
//	WINDLASS_COMMAND_LINE       the command line, windlass
//	WINDLASS_SIMULATOR          the example serve of host/simulator
//	WINDLASS_POLICIES           a folder with windlass-guest-state-mapping.wasm and grace-for-stopped.wasm
//	WINDLASS_MEASURE            anything: hold figures against their bounds, and print them (wants a quiet machine)
//	WINDLASS_OURS               instances to measure with, among WINDLASS_SERVERS servers
//	WINDLASS_REFERENCE_PLUGINS  other plugins to be measured beside ours, separated by colons
package fleeting
