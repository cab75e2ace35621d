package windlass_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheExampleOfThePageDoesWhatItSays runs the example of the page about the policy server as it stands, with what
// the page takes for granted around it.
func TestTheExampleOfThePageDoesWhatItSays(t *testing.T) {
	page, err := os.ReadFile("../../docs/policy-server.md")
	if err != nil {
		t.Fatal(err)
	}
	block := func(begin string) string {
		found := regexp.MustCompile("(?s)" + begin + "(.*?)\n```\n").FindSubmatch(page)
		if found == nil {
			t.Fatalf("the page lacks %s", begin)
		}
		return string(found[1])
	}
	server := newServer(t, "1")
	server.write("retry.rules.toml", block("<!-- file: patience.rules.toml -->\n```toml\n"))
	server.kill()
	server.start()

	// Nothing of it may need the time that a busy machine takes.
	example := strings.Replace(block("## Use it from Go\n.*?```go\n"), `"/run/windlass/policy.sock", windlass.Options{}`,
		`"`+server.socket+`", windlass.Options{Timeout: time.Minute}`, 1)
	program := filepath.Join(t.TempDir(), "main.go")
	text := `package main

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"time"

	windlass "github.com/windlass-dev/windlass/clients/go"
	"github.com/windlass-dev/windlass/clients/go/policyv1"
)

func giveUp() *policyv1.RetryAnswer { return nil }

func main() {
	ctx := context.Background()
` + example + `
	fmt.Println(decision.Answer.GetVerdict().GetWait(), decision.Reason)
}
`
	if err := os.WriteFile(program, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func() string {
		said, err := exec.Command("go", "run", program).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		return string(said)
	}
	if said := run(); said != "60000 stock may come back\n" {
		t.Error(said)
	}
	server.kill()
	if said := run(); !strings.Contains(said, "using the local default: ") || !strings.Contains(said, "refused") {
		t.Error(said)
	}
}
