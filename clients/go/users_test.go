package windlass_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	windlass "github.com/windlass-dev/windlass/clients/go"
)

const nobody = 65534

// asNobody asks the server as another user: this test's own program, copied to where that user can run it.
func asNobody(t *testing.T, server *server) string {
	t.Helper()
	if err := os.Chmod(server.folder, 0o755); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(server.folder, "asker")
	// By a child: a child of another test would inherit this process' handle, and while it has that, the copy cannot be
	// run (ETXTBSY).
	if said, err := exec.Command("cp", os.Args[0], program).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	asker := exec.Command(program)
	asker.Dir = server.folder
	asker.Env = []string{"WINDLASS_TEST_ASK=" + server.socket}
	asker.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	said, err := asker.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return string(said)
}

// askOnce is what the copy does.
func askOnce(path string) {
	client := windlass.New(path, patient)
	defer client.Close()
	decision := client.Retry(context.Background(), gatewayFailed(), giveUp)
	fmt.Printf("%d %v\n", decision.Answer.GetVerdict().GetWait(), decision.Err)
}

func TestAnotherUserIsRefusedUnlessNamed(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	server := newServer(t, "9")
	if said := asNobody(t, server); !strings.Contains(said, "permission denied") {
		t.Errorf("the file lets others through: %s", said)
	}
	server.kill()
	server.start("--allow-uid", "12345")
	if said := asNobody(t, server); !strings.Contains(said, "0 policy server: user 65534 may not ask this server") {
		t.Error(said)
	}
	server.kill()
	server.start("--allow-uid", "12345", "--allow-uid", fmt.Sprint(nobody))
	if said := asNobody(t, server); said != "9 <nil>\n" {
		t.Error(said)
	}
	expectWait(t, newClient(t, server.socket, patient).Policies, 9)
}
