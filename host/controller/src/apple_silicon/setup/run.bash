# Runs the operator's script on the host, and ends it when whoever asked for it goes away or asks for its end.
set -u
umask 077
folder=$(cd "$(dirname "$0")" && pwd) && cd "$folder" || exit 1
. ./environment
# Each of the background commands below is a process group of its own.
set -m
exec 3<&0
# What names the process is there before the script begins, or the script does not begin.
/bin/bash -c 'echo "$$ $(ps -o lstart= -p $$)" >process && cd files && exec "./$WINDLASS_SCRIPT"' </dev/null 3<&- &
script=$!
# The input ends when the connection does: the controller has died, or is no longer reached.
(cat <&3 >/dev/null; exec /bin/bash ./stop) >/dev/null 2>&1 &
watch=$!
# Its end is no news.
disown "$watch"
trap '/bin/bash ./stop' TERM HUP INT
wait "$script"
status=$?
# A wait that a signal ended is over before the script is.
wait "$script" 2>/dev/null
trap '' TERM HUP INT
kill -KILL "-$watch" 2>/dev/null
cd /
rm -rf "$folder"
exit "$status"
