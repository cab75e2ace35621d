package windlass_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	windlass "github.com/windlass-dev/windlass/clients/go"
	"github.com/windlass-dev/windlass/clients/go/policyv1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

// liar answers each request on each connection by what tell writes, and returns its address.
func liar(t *testing.T, tell func(conn net.Conn, request *policyv1.Request)) string {
	t.Helper()
	return listening(t, func(conn net.Conn) {
		for {
			var header [4]byte
			if _, err := io.ReadFull(conn, header[:]); err != nil {
				return
			}
			message := make([]byte, binary.BigEndian.Uint32(header[:]))
			request := &policyv1.Request{}
			if _, err := io.ReadFull(conn, message); err != nil || proto.Unmarshal(message, request) != nil {
				return
			}
			tell(conn, request)
		}
	})
}

// listening lets serve have each connection, which is closed then, and returns the address.
func listening(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "windlass-")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "liar.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		listener.Close()
		os.RemoveAll(folder)
	})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return path
}

func respond(conn net.Conn, response *policyv1.Response) {
	bytes, err := proto.Marshal(response)
	if err != nil {
		panic(err)
	}
	conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(bytes))), bytes...))
}

// decided is a response whose single outcome has this answer.
func decided(request *policyv1.Request, answer *policyv1.Answer) *policyv1.Response {
	outcome := &policyv1.Outcome{Outcome: &policyv1.Outcome_Decision{Decision: &policyv1.Decision{Id: "1",
		Answer: answer}}}
	return outcomes(request, outcome)
}

func outcomes(request *policyv1.Request, outcomes ...*policyv1.Outcome) *policyv1.Response {
	return &policyv1.Response{Id: request.GetId(),
		Result: &policyv1.Response_Outcomes{Outcomes: &policyv1.Outcomes{Outcomes: outcomes}}}
}

func retryAnswer(verdict *policyv1.RetryVerdict) *policyv1.Answer {
	return &policyv1.Answer{Slot: &policyv1.Answer_Retry{Retry: &policyv1.RetryAnswer{Verdict: verdict}}}
}

func TestAServerThatLiesMeansTheOwnDefault(t *testing.T) {
	for name, lie := range map[string]struct {
		tell func(net.Conn, *policyv1.Request)
		why  error
	}{
		"garbage": {func(conn net.Conn, _ *policyv1.Request) {
			conn.Write([]byte("\x00\x00\x00\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
		}, windlass.ErrMalformed},
		"another protocol": {func(conn net.Conn, _ *policyv1.Request) {
			conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		}, windlass.ErrMalformed},
		"a giant length": {func(conn net.Conn, _ *policyv1.Request) {
			conn.Write([]byte{0xff, 0xff, 0xff, 0xff})
		}, windlass.ErrMalformed},
		"half a response": {func(conn net.Conn, _ *policyv1.Request) {
			conn.Write([]byte{0, 0, 0, 9, 8})
			conn.Close()
		}, io.ErrUnexpectedEOF},
		"half a length": {func(conn net.Conn, _ *policyv1.Request) {
			conn.Write([]byte{0})
			conn.Close()
		}, io.ErrUnexpectedEOF},
		"nothing, and the end": {func(conn net.Conn, _ *policyv1.Request) { conn.Close() }, io.EOF},
		"an empty response": {func(conn net.Conn, _ *policyv1.Request) { conn.Write([]byte{0, 0, 0, 0}) },
			windlass.ErrMalformed},
		"another's response": {func(conn net.Conn, request *policyv1.Request) {
			request.Id++
			respond(conn, decided(request, retryAnswer(&policyv1.RetryVerdict{Verdict: &policyv1.RetryVerdict_Wait{Wait: 1}})))
		}, windlass.ErrMalformed},
		"no outcome": {func(conn net.Conn, request *policyv1.Request) { respond(conn, outcomes(request)) },
			windlass.ErrMalformed},
		"an empty outcome": {func(conn net.Conn, request *policyv1.Request) {
			respond(conn, outcomes(request,
				&policyv1.Outcome{}))
		}, windlass.ErrMalformed},
		"an empty decision": {func(conn net.Conn, request *policyv1.Request) { respond(conn, decided(request, nil)) },
			windlass.ErrDeferred},
		"no verdict": {func(conn net.Conn, request *policyv1.Request) {
			respond(conn, decided(request, retryAnswer(nil)))
		}, windlass.ErrDeferred},
		"a deferral": {func(conn net.Conn, request *policyv1.Request) {
			deferred := &policyv1.RetryVerdict_Defer{Defer: &emptypb.Empty{}}
			respond(conn, decided(request, retryAnswer(&policyv1.RetryVerdict{Verdict: deferred})))
		}, windlass.ErrDeferred},
		"an answer of another slot": {func(conn net.Conn, request *policyv1.Request) {
			respond(conn, decided(request, &policyv1.Answer{Slot: &policyv1.Answer_Release{Release: &policyv1.ReleaseAnswer{}}}))
		}, windlass.ErrDeferred},
	} {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, liar(t, lie.tell), patient)
			// Twice: what the first call left behind must not answer the second.
			for range 2 {
				if err := expectOwn(t, client, context.Background()); !errors.Is(err, lie.why) {
					t.Errorf("%v", err)
				}
			}
		})
	}
}

func TestAnEndlessAnswerEndsWithTheTime(t *testing.T) {
	drip := liar(t, func(conn net.Conn, _ *policyv1.Request) {
		conn.Write([]byte{0, 0x10, 0, 0})
		for {
			if _, err := conn.Write([]byte{0}); err != nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
	client := newClient(t, drip, windlass.Options{Timeout: 50 * time.Millisecond})
	if err := expectOwn(t, client, context.Background()); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestAServersRefusalIsTold(t *testing.T) {
	refuses := liar(t, func(conn net.Conn, _ *policyv1.Request) {
		denied := &policyv1.Error{Code: policyv1.Error_CODE_DENIED, Message: "user 7 may not ask"}
		respond(conn, &policyv1.Response{Result: &policyv1.Response_Error{Error: denied}})
		conn.Close()
	})
	client := newClient(t, refuses, patient)
	for range 2 {
		var refusal *windlass.ServerError
		if err := expectOwn(t, client, context.Background()); !errors.As(err, &refusal) ||
			refusal.Code != policyv1.Error_CODE_DENIED {
			t.Error(err)
		}
	}
}

func TestAnswersOfABatchThatMissAServerAreNone(t *testing.T) {
	client := newClient(t, liar(t, func(conn net.Conn, request *policyv1.Request) {
		verdict := &policyv1.StateMappingVerdict_Mapped{Mapped: &policyv1.StateMappingMapping{}}
		mapped := &policyv1.StateMappingAnswer{Verdict: &policyv1.StateMappingVerdict{Verdict: verdict}}
		answers := &policyv1.StateMappingAnswers{Answers: []*policyv1.StateMappingAnswer{mapped}}
		respond(conn, decided(request, &policyv1.Answer{Slot: &policyv1.Answer_StateMapping{StateMapping: answers}}))
	}), patient)
	for servers, why := range map[int]error{1: nil, 2: windlass.ErrDeferred} {
		question := &policyv1.StateMappingQuestion{}
		for range servers {
			question.Servers = append(question.Servers, &policyv1.StateMappingServer{})
		}
		decision := client.StateMapping(context.Background(), question, func() []*policyv1.StateMappingAnswer { return nil })
		if !errors.Is(decision.Err, why) {
			t.Errorf("%d: %v", servers, decision.Err)
		}
	}
}

func TestAServerThatRefusesWithoutHavingReadIsHeard(t *testing.T) {
	client := newClient(t, listening(t, func(conn net.Conn) {
		busy := &policyv1.Error{Code: policyv1.Error_CODE_BUSY, Message: "no room"}
		respond(conn, &policyv1.Response{Result: &policyv1.Response_Error{Error: busy}})
	}), patient)
	question := gatewayFailed()
	// More than the system takes before the server reads, so that the client can't have sent it.
	question.Failure.Message = strings.Repeat("x", 4<<20)
	for range 2 {
		var refusal *windlass.ServerError
		decision := client.Retry(context.Background(), question, giveUp)
		if !errors.As(decision.Err, &refusal) || refusal.Code != policyv1.Error_CODE_BUSY {
			t.Error(decision.Err)
		}
	}
}

func TestTheLargestResponseMayBeSet(t *testing.T) {
	client := newClient(t, liar(t, func(conn net.Conn, request *policyv1.Request) {
		wait := &policyv1.RetryVerdict{Verdict: &policyv1.RetryVerdict_Wait{Wait: 1}}
		respond(conn, decided(request, retryAnswer(wait)))
	}), windlass.Options{Timeout: time.Minute, MaxResponseBytes: 4})
	err := expectOwn(t, client, context.Background())
	if !errors.Is(err, windlass.ErrMalformed) ||
		err.Error() != "malformed response: its length, 19 bytes, exceeds MaxResponseBytes (4)" {
		t.Error(err)
	}
}

func TestWhatComesUnaskedIsNoAnswer(t *testing.T) {
	waits := func(id, milliseconds uint64) *policyv1.Response {
		wait := &policyv1.RetryVerdict{Verdict: &policyv1.RetryVerdict_Wait{Wait: milliseconds}}
		return decided(&policyv1.Request{Id: id}, retryAnswer(wait))
	}
	asked := make(chan net.Conn, 1)
	client := newClient(t, liar(t, func(conn net.Conn, request *policyv1.Request) {
		asked <- conn
		respond(conn, waits(request.GetId(), 1))
	}), windlass.Options{Timeout: time.Minute, Connections: 1})
	connections := map[net.Conn]bool{}
	for call := range uint64(3) {
		decision := client.Retry(context.Background(), gatewayFailed(), giveUp)
		if wait := decision.Answer.GetVerdict().GetWait(); decision.Err != nil || wait != 1 {
			t.Fatalf("%d: %v", wait, decision.Err)
		}
		conn := <-asked
		connections[conn] = true
		// The answer to the next question, before that is put.
		respond(conn, waits(call+2, 99))
	}
	if len(connections) != 3 {
		t.Errorf("%d connections", len(connections))
	}
}

func TestAfterCloseNoCallConnects(t *testing.T) {
	connected := make(chan struct{}, 1_000)
	held := make(chan struct{})
	path := liar(t, func(net.Conn, *policyv1.Request) {
		connected <- struct{}{}
		<-held
	})
	defer close(held)
	client := newClient(t, path, windlass.Options{Timeout: 200 * time.Millisecond, Connections: 8})
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			if _, err := client.Pin(context.Background()); err == nil {
				t.Error("a server that says nothing has no pin")
			}
		})
	}
	for range 8 {
		<-connected
	}
	client.Close()
	calls.Wait()
	for range 200 {
		if _, err := client.Pin(context.Background()); !errors.Is(err, windlass.ErrClosed) {
			t.Fatal(err)
		}
	}
	if len(connected) > 0 {
		t.Error("a call after Close reached the server")
	}
}
