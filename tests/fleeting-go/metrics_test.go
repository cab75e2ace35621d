package fleeting

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The metrics that a plugin serves. They tell what it has done without a call to the cloud.
type metrics struct {
	t      testing.TB
	socket string
	client http.Client
}

func servedMetrics(t testing.TB) *metrics {
	t.Helper()
	// Not the test's own folder, which has its name in it: the path of a socket is short.
	folder, err := os.MkdirTemp("", "metrics-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	socket := filepath.Join(folder, "socket")
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}
	return &metrics{t: t, socket: socket, client: http.Client{Transport: transport}}
}

// A configuration's changes, and the metrics' address.
func (m *metrics) configured(changes map[string]any) map[string]any {
	all := map[string]any{"metrics": "unix:" + m.socket}
	maps.Copy(all, changes)
	return all
}

func (m *metrics) text() string {
	m.t.Helper()
	request, err := http.NewRequestWithContext(m.t.Context(), "GET", "http://plugin/metrics", nil)
	require.NoError(m.t, err)
	response, err := m.client.Do(request)
	require.NoError(m.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(m.t, err)
	return string(text)
}

func (m *metrics) show(line string) bool {
	m.t.Helper()
	return strings.Contains(m.text(), line+"\n")
}

// The line for so many creations that have ended well.
func created(count int) string {
	return fmt.Sprintf(`windlass_fleeting_creations_total{outcome="done"} %d`, count)
}

// The line for so many removals that have ended well.
func removed(count int) string {
	return fmt.Sprintf(`windlass_fleeting_cleanups_total{outcome="done"} %d`, count)
}
