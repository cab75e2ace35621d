package windlass_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/clients/go/policyv1"
)

// BenchmarkRoundTrip measures a decision beside a plain echo of the same bytes by another process, in turns. It has its
// own distributions, since an average tells little about what waits for a scheduler.
func BenchmarkRoundTrip(b *testing.B) {
	server := newServer(b, "1234")
	client := newClient(b, server.socket, patient)
	question := gatewayFailed()
	echo := newEcho(b)
	payload := make([]byte, 200)
	kinds := []struct {
		name string
		call func()
	}{
		{"echo", func() { echo(payload) }},
		{"rules", func() {
			if decision := client.Retry(context.Background(), question, giveUp); decision.Err != nil {
				b.Fatal(decision.Err)
			}
		}},
		{"built-in", func() {
			other := gatewayFailed()
			other.Failure.Class = policyv1.FailureClass_FAILURE_CLASS_CONFLICT
			if decision := client.Retry(context.Background(), other, giveUp); decision.Err != nil {
				b.Fatal(decision.Err)
			}
		}},
	}
	took := make([][]time.Duration, len(kinds))
	for b.Loop() {
		for kind := range kinds {
			began := time.Now()
			kinds[kind].call()
			took[kind] = append(took[kind], time.Since(began))
		}
	}
	for kind, durations := range took {
		slices.Sort(durations)
		at := func(share float64) float64 {
			return float64(durations[int(share*float64(len(durations)-1))].Nanoseconds()) / 1000
		}
		b.ReportMetric(at(0.5), kinds[kind].name+"-p50-µs")
		b.ReportMetric(at(0.99), kinds[kind].name+"-p99-µs")
	}
}

// TestMain lets the test's own program be the echo, or ask as another user.
func TestMain(m *testing.M) {
	if path := os.Getenv("WINDLASS_TEST_ECHO"); path != "" {
		listener, err := net.Listen("unix", path)
		if err != nil {
			os.Exit(1)
		}
		os.Stdout.WriteString("listening\n")
		if conn, err := listener.Accept(); err == nil {
			io.Copy(conn, conn)
		}
		return
	}
	if path := os.Getenv("WINDLASS_TEST_ASK"); path != "" {
		askOnce(path)
		return
	}
	os.Exit(m.Run())
}

func newEcho(b *testing.B) func([]byte) {
	path := filepath.Join(b.TempDir(), "echo")
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), "WINDLASS_TEST_ECHO="+path)
	output, err := process.StdoutPipe()
	if err == nil {
		err = process.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		process.Process.Kill()
		process.Wait()
	})
	if _, err := io.ReadFull(output, make([]byte, len("listening\n"))); err != nil {
		b.Fatal(err)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	return func(payload []byte) {
		message := binary.BigEndian.AppendUint32(nil, uint32(len(payload)))
		conn.SetDeadline(time.Now().Add(time.Minute))
		if _, err := conn.Write(append(message, payload...)); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, len(payload)+4)); err != nil {
			b.Fatal(err)
		}
	}
}
