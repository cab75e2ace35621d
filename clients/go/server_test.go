package windlass_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/windlass-dev/windlass/clients/go/policyv1"
)

// server is a real `windlass policy serve`, in a folder of its own, whose retry policy is a file of rules.
type server struct {
	t       testing.TB
	folder  string
	socket  string
	process *exec.Cmd
}

// commandLine is the program `windlass`, which `just test-clients-go` builds.
func commandLine(t testing.TB) string {
	program := os.Getenv("WINDLASS_COMMAND_LINE")
	if program == "" {
		t.Skip("WINDLASS_COMMAND_LINE names no program: just test-clients-go")
	}
	return program
}

// lendCompiled gives a new state directory the compiled policies of WINDLASS_COMPILED, so that no test compiles the
// defaults.
func lendCompiled(t testing.TB, state string) {
	t.Helper()
	compiled := os.Getenv("WINDLASS_COMPILED")
	if _, err := os.Stat(state); compiled == "" || err == nil {
		return
	}
	if err := os.MkdirAll(filepath.Join(state, "cache"), 0o700); err != nil {
		t.Fatal(err)
	}
	entries, err := filepath.Glob(filepath.Join(compiled, "cache", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(entries, filepath.Join(compiled, "cache.key")) {
		below, err := filepath.Rel(compiled, file)
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(state, below), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// newServer starts one whose retry policy waits for so many milliseconds.
func newServer(t testing.TB, wait string) *server {
	t.Helper()
	commandLine(t)
	// The address of a socket is short, and the folders of tests are not.
	folder, err := os.MkdirTemp("", "windlass-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	s := &server{t: t, folder: folder, socket: filepath.Join(folder, "policy.sock")}
	s.rules(wait)
	s.write("config.toml", "[policies.retry]\npath = \""+filepath.Join(folder, "retry.rules.toml")+"\"\n")
	s.start()
	return s
}

// rules puts other rules in place.
func (s *server) rules(wait string) {
	s.t.Helper()
	text := `slot = "retry"
[[rules]]
name = "wait"
when = "failure.class == 'gateway'"
answer = { wait = ` + wait + ` }
reason = "waits ` + wait + `"
`
	s.write("retry.rules.toml.new", text)
	if err := os.Rename(filepath.Join(s.folder, "retry.rules.toml.new"), filepath.Join(s.folder,
		"retry.rules.toml")); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.folder, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// start begins to serve, and returns when the socket is there.
func (s *server) start(options ...string) {
	s.t.Helper()
	arguments := append([]string{"--quiet", "--config", filepath.Join(s.folder, "config.toml"),
		"--state-dir", filepath.Join(s.folder, "state"), "policy", "serve", "--listen", "unix:" + s.socket}, options...)
	lendCompiled(s.t, filepath.Join(s.folder, "state"))
	s.process = exec.Command(commandLine(s.t), arguments...)
	s.process.Env = append(os.Environ(), "HOME="+s.folder, "SCW_CONFIG_PATH="+filepath.Join(s.folder, "none"))
	s.process.Stderr = os.Stderr
	output, err := s.process.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	process := s.process
	s.t.Cleanup(func() {
		process.Process.Kill()
		process.Wait()
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "unix:"+s.socket {
		s.t.Fatalf("the server said %q: %v", line, err)
	}
}

func (s *server) signal(signal syscall.Signal) {
	s.t.Helper()
	if err := s.process.Process.Signal(signal); err != nil {
		s.t.Fatal(err)
	}
}

// stop lets it hang, until SIGCONT.
func (s *server) stop() {
	s.t.Helper()
	s.signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(s.process.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		s.t.Fatalf("it does not hang: %v, %v", err, status)
	}
}

// kill ends it without a word.
func (s *server) kill() {
	s.t.Helper()
	s.signal(syscall.SIGKILL)
	s.process.Wait()
}

// subject is whose machines the questions are about.
func subject() *policyv1.Subject {
	return &policyv1.Subject{Program: policyv1.Program_PROGRAM_OTHER, Owner: "tests"}
}

// gatewayFailed is a question that the rules decide.
func gatewayFailed() *policyv1.RetryQuestion {
	return &policyv1.RetryQuestion{
		Now: 1_767_225_600_000, Random: 7, Operation: "create-server", Step: "power-on", Attempt: 2, Elapsed: 100,
		Zone:    "fr-par-1",
		Subject: subject(),
		Failure: &policyv1.Failure{Class: policyv1.FailureClass_FAILURE_CLASS_GATEWAY, Message: "bad gateway"},
	}
}

// giveUp is the caller's own default.
func giveUp() *policyv1.RetryAnswer {
	return &policyv1.RetryAnswer{Verdict: &policyv1.RetryVerdict{Verdict: &policyv1.RetryVerdict_GiveUp{}}}
}
