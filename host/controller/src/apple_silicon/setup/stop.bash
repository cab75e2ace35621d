# Ends the script of the run in whose folder this is, with all that belongs to its process group. Fails when it cannot.
set -u
cd "$(dirname "$0")" || exit 0
[ -f process ] || exit 0
[ -f environment ] && . ./environment
read -r group began <process || exit 0
# The number alone could be somebody else's by now: the moment of its beginning tells.
alive() {
  case "$(ps -o stat= -p "$group")" in '' | Z*) return 1 ;; esac
  [ "$(echo $(ps -o lstart= -p "$group"))" = "$(echo $began)" ]
}
end() {
  if [ "$(id -u)" != 0 ] && [ -n "${SUDO_ASKPASS:-}" ] && sudo -A kill "-$1" "-$group" 2>/dev/null; then return; fi
  kill "-$1" "-$group" 2>/dev/null
}
alive || exit 0
end TERM
for _ in $(seq 50); do
  alive || exit 0
  sleep 0.1
done
end KILL
for _ in $(seq 20); do
  alive || exit 0
  sleep 0.1
done
echo "an earlier run of the script is still going on and cannot be ended" >&2
exit 75
