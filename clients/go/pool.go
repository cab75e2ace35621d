package windlass

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/windlass-dev/windlass/clients/go/policyv1"
	"google.golang.org/protobuf/proto"
)

// The bytes before each message: its length, the most significant byte first.
const lengthBytes = 4

// Memory for a response is taken in steps as it comes, whatever length was announced.
const stepBytes = 64 << 10

// pool has the connections. Each is used by one call at a time.
type pool struct {
	path    string
	timeout time.Duration
	largest uint32
	last    atomic.Uint64
	// One entry for each connection that may be: nil where it is not made.
	idle   chan net.Conn
	closed chan struct{}
	once   *sync.Once
}

func newPool(path string, options Options) pool {
	idle := make(chan net.Conn, options.Connections)
	for range options.Connections {
		idle <- nil
	}
	return pool{
		path: path, timeout: options.Timeout, largest: options.MaxResponseBytes,
		idle: idle, closed: make(chan struct{}), once: new(sync.Once),
	}
}

func (p *pool) close() {
	p.once.Do(func() { close(p.closed) })
	p.drain()
}

func (p *pool) isClosed() bool {
	select {
	case <-p.closed:
		return true
	default:
		return false
	}
}

// drain closes the connections that no call uses.
func (p *pool) drain() {
	for {
		select {
		case conn := <-p.idle:
			if conn != nil {
				conn.Close()
			}
		default:
			return
		}
	}
}

// call sends a request and reads its response. A connection that the server has closed meanwhile is made anew once:
// decisions change nothing, so that asking twice does no harm.
func (p *pool) call(ctx context.Context, request *policyv1.Request) (*policyv1.Response, error) {
	request.Id = p.last.Add(1)
	message, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, lengthBytes), request)
	if err != nil {
		return nil, err
	}
	binary.BigEndian.PutUint32(message, uint32(len(message)-lengthBytes))

	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	var conn net.Conn
	select {
	case <-p.closed:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	case conn = <-p.idle:
	}
	if conn != nil && !isQuiet(conn) {
		conn.Close()
		conn = nil
	}
	reused := conn != nil
	for {
		// Of two that can be received from, select takes any.
		if p.isClosed() {
			if conn != nil {
				conn.Close()
			}
			return nil, ErrClosed
		}
		if conn == nil {
			if conn, err = (&net.Dialer{}).DialContext(ctx, "unix", p.path); err != nil {
				p.idle <- nil
				return nil, err
			}
		}
		response, err := p.exchange(ctx, conn, request.Id, message)
		if err == nil {
			p.put(conn)
			return response, refusal(response)
		}
		conn.Close()
		conn = nil
		if !reused || !isGone(err) {
			p.idle <- nil
			return nil, err
		}
		reused = false
	}
}

// put gives a connection back, on which the next call finds nothing of this one.
func (p *pool) put(conn net.Conn) {
	p.idle <- conn
	if p.isClosed() {
		p.drain()
	}
}

func (p *pool) exchange(ctx context.Context, conn net.Conn, id uint64, message []byte) (*policyv1.Response, error) {
	// Called off or out of time: reading and writing end at once. The connection has no deadline of its own, whose timer
	// might fire a moment before the context's and then be told as another error.
	done := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	response, err := p.transfer(conn, message)
	if !done() && err == nil {
		err = ctx.Err()
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	// What is wrong with a request that can't be read, or with its sender, is told under no number.
	case response.GetId() != id && !(response.GetId() == 0 && response.GetError() != nil):
		return nil, fmt.Errorf("%w: a response to another request", ErrMalformed)
	}
	return response, nil
}

func (p *pool) transfer(conn net.Conn, message []byte) (*policyv1.Response, error) {
	// A server that refuses answers without having read: what it says counts more than that it reads no further.
	_, unsent := conn.Write(message)
	var header [lengthBytes]byte
	if _, err := io.ReadFull(conn, header[:]); err != nil {
		if unsent != nil {
			return nil, unsent
		}
		return nil, err
	}
	length := binary.BigEndian.Uint32(header[:])
	if length > p.largest {
		return nil, fmt.Errorf("%w: its length, %d bytes, exceeds MaxResponseBytes (%d)", ErrMalformed, length, p.largest)
	}
	bytes := make([]byte, 0, min(length, stepBytes))
	for uint32(len(bytes)) < length {
		from := len(bytes)
		step := min(int(length)-from, stepBytes)
		bytes = append(bytes, make([]byte, step)...)
		if _, err := io.ReadFull(conn, bytes[from:]); err != nil {
			return nil, err
		}
	}
	response := &policyv1.Response{}
	if err := proto.Unmarshal(bytes, response); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return response, nil
}

// refusal is what the server says instead of an answer.
func refusal(response *policyv1.Response) error {
	if refused := response.GetError(); refused != nil {
		return &ServerError{Code: refused.GetCode(), Message: refused.GetMessage()}
	}
	return nil
}

// isGone tells whether a connection was closed by the server before it took the request.
func isGone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// isQuiet tells whether nothing came that nobody asked for: neither the connection's end, nor what the next call would
// take for its response.
func isQuiet(conn net.Conn) bool {
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return false
	}
	var unread error
	// Go's connections never block their thread. What is read is of no use to anybody.
	err = raw.Read(func(fd uintptr) bool {
		_, unread = syscall.Read(int(fd), make([]byte, 1))
		return true
	})
	return err == nil && errors.Is(unread, syscall.EAGAIN)
}
