package windlass_test

import (
	"context"
	"testing"
	"time"

	windlass "github.com/windlass-dev/windlass/clients/go"
)

// patient lets a busy machine take its time, where the time is not what a test is about.
var patient = windlass.Options{Timeout: time.Minute}

func newClient(t testing.TB, path string, options windlass.Options) *windlass.Client {
	client := windlass.New(path, options)
	t.Cleanup(client.Close)
	return client
}

func TestAPolicyOfTheServerDecides(t *testing.T) {
	server := newServer(t, "1234")
	client := newClient(t, server.socket, patient)
	decision := client.Retry(context.Background(), gatewayFailed(), giveUp)
	if decision.Err != nil {
		t.Fatal(decision.Err)
	}
	if wait := decision.Answer.GetVerdict().GetWait(); wait != 1234 {
		t.Errorf("it waits %d", wait)
	}
	if decision.Reason != "waits 1234" || decision.ID == "" || decision.DecidedBy.GetSlot() != "retry" || decision.DecidedBy.GetBuiltIn() {
		t.Errorf("%+v", decision)
	}
}
