package fleeting

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"net"
	"os/exec"

	"golang.org/x/crypto/ssh"
)

// Serves ssh until the listener is closed: public keys only, commands are really run.
func serveSSH(listener net.Listener, keys map[string]bool) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return
	}
	host, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return
	}
	config := &ssh.ServerConfig{
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if keys[string(key.Marshal())] {
				return nil, nil
			}
			return nil, errors.New("this server was not given the key")
		},
	}
	config.AddHostKey(host)
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		go serveConnection(connection, config)
	}
}

func serveConnection(connection net.Conn, config *ssh.ServerConfig) {
	defer connection.Close()
	_, channels, requests, err := ssh.NewServerConn(connection, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for channel := range channels {
		if channel.ChannelType() != "session" {
			_ = channel.Reject(ssh.UnknownChannelType, "sessions only")
			continue
		}
		session, requests, err := channel.Accept()
		if err != nil {
			return
		}
		go func() {
			for request := range requests {
				var body struct{ Command string }
				if request.Type != "exec" || ssh.Unmarshal(request.Payload, &body) != nil {
					_ = request.Reply(false, nil)
					continue
				}
				_ = request.Reply(true, nil)
				command := exec.Command("sh", "-c", body.Command)
				command.Stdout, command.Stderr = session, session.Stderr()
				status := uint32(0)
				if err := command.Run(); err != nil {
					status = 1
				}
				_, _ = session.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
				_ = session.Close()
			}
		}()
	}
}
