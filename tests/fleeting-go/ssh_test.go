package fleeting

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"net"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gitlab.com/gitlab-org/fleeting/fleeting/provider"
	"golang.org/x/crypto/ssh"
)

// How a runner reaches the machines: by ssh on a port that is held on 127.0.0.1, so that nobody else on this machine is
// given it while the test uses it on other loopback addresses.
func overSSH(t testing.TB) provider.ConnectorConfig {
	t.Helper()
	holder, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = holder.Close() })
	// Fleeting's connection looks only once in each keepalive interval whether it was closed.
	return provider.ConnectorConfig{
		Timeout: waitLimit, Keepalive: 200 * time.Millisecond, ProtocolPort: holder.Addr().(*net.TCPAddr).Port,
	}
}

// The machines of a test, each with an ssh server at its own address. All that they do ends with ctx.
type machines struct {
	ctx     context.Context
	port    int
	host    ssh.Signer
	serving sync.WaitGroup
}

// Serves until ctx ends, or serve fails, what serve starts to listen on, and waits for all of it.
func serveMachines(ctx context.Context, port int, serve func(*machines) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	host, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return err
	}
	all := &machines{ctx: ctx, port: port, host: host}
	defer all.serving.Wait()
	if err := serve(all); err != nil {
		cancel()
		return err
	}
	return nil
}

// Serves ssh at an address: commands are really run.
func (m *machines) listen(address string, config *ssh.ServerConfig) error {
	config.AddHostKey(m.host)
	listener, err := net.Listen("tcp", fmt.Sprintf("%s:%d", address, m.port))
	if err != nil {
		return err
	}
	m.serving.Go(func() {
		defer context.AfterFunc(m.ctx, func() { _ = listener.Close() })()
		var connections sync.WaitGroup
		defer connections.Wait()
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Go(func() { serveConnection(m.ctx, connection, config) })
		}
	})
	return nil
}

func serveConnection(ctx context.Context, connection net.Conn, config *ssh.ServerConfig) {
	defer connection.Close()
	defer context.AfterFunc(ctx, func() { _ = connection.Close() })()
	_, channels, requests, err := ssh.NewServerConn(connection, config)
	if err != nil {
		return
	}
	var sessions sync.WaitGroup
	defer sessions.Wait()
	sessions.Go(func() { ssh.DiscardRequests(requests) })
	for channel := range channels {
		if channel.ChannelType() != "session" {
			_ = channel.Reject(ssh.UnknownChannelType, "sessions only")
			continue
		}
		session, requests, err := channel.Accept()
		if err != nil {
			continue
		}
		sessions.Go(func() { serveSession(ctx, session, requests) })
	}
}

func serveSession(ctx context.Context, session ssh.Channel, requests <-chan *ssh.Request) {
	for request := range requests {
		var body struct{ Command string }
		if request.Type != "exec" || ssh.Unmarshal(request.Payload, &body) != nil {
			_ = request.Reply(false, nil)
			continue
		}
		_ = request.Reply(true, nil)
		command := exec.CommandContext(ctx, "sh", "-c", body.Command)
		command.Stdout, command.Stderr = session, session.Stderr()
		// Once the command has ended, whoever still has its output open is not waited for.
		command.WaitDelay = time.Second
		endsWithUs(command)
		status := uint32(0)
		if err := command.Run(); err != nil {
			status = 1
		}
		_, _ = session.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
		_ = session.Close()
	}
}
