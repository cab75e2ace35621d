package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTheMessagesAreThoseOfTheProtocol(t *testing.T) {
	made := t.TempDir()
	if err := generate("../../../host/serve/proto", made); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"server.pb.go", "slots.pb.go"} {
		want, err := os.ReadFile(filepath.Join(made, name))
		if err != nil {
			t.Fatal(err)
		}
		have, err := os.ReadFile(filepath.Join("../policyv1", name))
		if err != nil {
			t.Fatal(err)
		}
		if string(have) != string(want) {
			t.Errorf("policyv1/%s is not what host/serve/proto says: just bindings", name)
		}
	}
}
