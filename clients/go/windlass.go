// Package windlass asks policies of Windlass for decisions, over the Unix socket of `windlass policy serve`.
//
// A question always gets an answer, within the time that it may take: where the server is dead, slow, overloaded or
// answers what makes no sense, that is the caller's own default, and Decision.Err says why. Nothing in here waits
// longer than the context and Options.Timeout allow.
package windlass

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-dev/windlass/clients/go/policyv1"
	"google.golang.org/protobuf/types/known/emptypb"
)

// DefaultTimeout is Options.Timeout where that is not set: so much that three policies of a chain may each use all of
// the time that they have by default.
const DefaultTimeout = 2 * time.Second

// Options of a client. The zero value is a good one.
type Options struct {
	// The longest that a call takes, whatever its context allows. Default 2 s.
	Timeout time.Duration
	// The most connections, and so the most calls at the same time; further ones wait for their turn. Default 8.
	Connections int
	// The largest response that is read, in bytes. Default 8 MiB, which no honest server exceeds.
	MaxResponseBytes uint32
	// Whether the server's built-in default counts as no decision, so that the caller's own default applies where no
	// policy that somebody configured decides.
	OwnDefaults bool
}

// Client asks one server. It connects when it is first asked, and again whenever that is needed. It may be used by many
// goroutines at the same time.
type Client struct {
	Policies
	pool pool
	own  bool
}

// Policies are asked for decisions: those in force at the time, or those of a pin.
type Policies struct {
	client *Client
	pin    []byte
}

// Decision is an answer, and where it comes from.
type Decision[A any] struct {
	Answer A
	// For people; never to be parsed.
	Reason string
	// Under which it is in the server's decision log. Empty where the caller's own default applies.
	ID string
	// The policy that decided. Nil where the caller's own default applies, or the server's last resort.
	DecidedBy *policyv1.Policy
	// Policies that failed before.
	Fallbacks []*policyv1.Fallback
	// Why the caller's own default applies. Nil where the server decided.
	Err error
}

// Why the caller's own default applies, beside what the network, the context and the server (*ServerError) say.
var (
	// ErrDeferred says that no policy decides.
	ErrDeferred = errors.New("no policy decides")
	// ErrBuiltIn says that only the server's built-in default decides, and Options.OwnDefaults is set.
	ErrBuiltIn = errors.New("no configured policy decides")
	// ErrMalformed says that the server answered what makes no sense.
	ErrMalformed = errors.New("malformed response")
	// ErrClosed says that the client was closed.
	ErrClosed = errors.New("the client is closed")
)

// ServerError is what a server says instead of an answer.
type ServerError struct {
	Code    policyv1.Error_Code
	Message string
}

func (e *ServerError) Error() string { return "policy server: " + e.Message }

// New makes a client of the server that listens on this path.
func New(path string, options Options) *Client {
	if options.Timeout <= 0 {
		options.Timeout = DefaultTimeout
	}
	if options.Connections <= 0 {
		options.Connections = 8
	}
	if options.MaxResponseBytes == 0 {
		options.MaxResponseBytes = 8 << 20
	}
	client := &Client{own: options.OwnDefaults, pool: newPool(path, options)}
	client.Policies.client = client
	return client
}

// Close ends the connections, that of a call under way when the call ends. Every later call ends with ErrClosed, and so
// with the caller's own default.
func (c *Client) Close() { c.pool.close() }

// Pin returns the policies that are in force now, to be asked by all questions of one operation. The token is to be
// stored with the operation, if that may outlive this process; it holds across restarts of the server as well.
func (c *Client) Pin(ctx context.Context) (*policyv1.Pin, error) {
	response, err := c.pool.call(ctx, &policyv1.Request{Call: &policyv1.Request_Pin{Pin: &emptypb.Empty{}}})
	if err != nil {
		return nil, err
	}
	if pin := response.GetPin(); pin != nil && len(pin.Token) > 0 {
		return pin, nil
	}
	return nil, fmt.Errorf("%w: no pin", ErrMalformed)
}

// Pinned asks the policies of a pin. Those in force are asked where the token is empty.
func (c *Client) Pinned(token []byte) Policies { return Policies{client: c, pin: token} }

// Status says which policies are in force and how they are doing.
func (c *Client) Status(ctx context.Context) (*policyv1.Status, error) {
	response, err := c.pool.call(ctx, &policyv1.Request{Call: &policyv1.Request_Status{Status: &emptypb.Empty{}}})
	if err != nil {
		return nil, err
	}
	if status := response.GetStatus(); status != nil {
		return status, nil
	}
	return nil, fmt.Errorf("%w: no status", ErrMalformed)
}

// Decide asks many questions in one call, of any slots, all under the same policies. There is one outcome for each, in
// their order; a caller has to look into each whether it is a decision.
func (p Policies) Decide(ctx context.Context, questions ...*policyv1.Question) ([]*policyv1.Outcome, error) {
	call := &policyv1.Decide{Pin: p.pin, Questions: questions}
	response, err := p.client.pool.call(ctx, &policyv1.Request{Call: &policyv1.Request_Decide{Decide: call}})
	if err != nil {
		return nil, err
	}
	outcomes := response.GetOutcomes().GetOutcomes()
	if len(outcomes) != len(questions) {
		return nil, fmt.Errorf("%w: %d outcomes of %d questions", ErrMalformed, len(outcomes), len(questions))
	}
	return outcomes, nil
}

// StateMapping asks what to report about each server, and what to do. There is one answer for each server.
func (p Policies) StateMapping(
	ctx context.Context, question *policyv1.StateMappingQuestion, own func() []*policyv1.StateMappingAnswer,
) Decision[[]*policyv1.StateMappingAnswer] {
	asked := &policyv1.Question{Slot: &policyv1.Question_StateMapping{StateMapping: question}}
	return ask(ctx, p, asked, own, func(answer *policyv1.Answer) ([]*policyv1.StateMappingAnswer, bool) {
		answers := answer.GetStateMapping().GetAnswers()
		if len(answers) != len(question.GetServers()) {
			return nil, false
		}
		for _, answer := range answers {
			if answer.GetVerdict().GetMapped() == nil {
				return nil, false
			}
		}
		return answers, true
	})
}

// Retry asks whether a failed step is tried again, and when.
func (p Policies) Retry(
	ctx context.Context, question *policyv1.RetryQuestion, own func() *policyv1.RetryAnswer,
) Decision[*policyv1.RetryAnswer] {
	asked := &policyv1.Question{Slot: &policyv1.Question_Retry{Retry: question}}
	return ask(ctx, p, asked, own, func(answer *policyv1.Answer) (*policyv1.RetryAnswer, bool) {
		switch answer.GetRetry().GetVerdict().GetVerdict().(type) {
		case *policyv1.RetryVerdict_GiveUp, *policyv1.RetryVerdict_Wait:
			return answer.GetRetry(), true
		}
		return nil, false
	})
}

// Rollback asks what is undone after a failure, in which order, and what is kept.
func (p Policies) Rollback(
	ctx context.Context, question *policyv1.RollbackQuestion, own func() *policyv1.RollbackAnswer,
) Decision[*policyv1.RollbackAnswer] {
	asked := &policyv1.Question{Slot: &policyv1.Question_Rollback{Rollback: question}}
	return ask(ctx, p, asked, own, func(answer *policyv1.Answer) (*policyv1.RollbackAnswer, bool) {
		return answer.GetRollback(), answer.GetRollback().GetVerdict().GetPlan() != nil
	})
}

// Release asks what becomes of a machine that its owner no longer wants.
func (p Policies) Release(
	ctx context.Context, question *policyv1.ReleaseQuestion, own func() *policyv1.ReleaseAnswer,
) Decision[*policyv1.ReleaseAnswer] {
	asked := &policyv1.Question{Slot: &policyv1.Question_Release{Release: question}}
	return ask(ctx, p, asked, own, func(answer *policyv1.Answer) (*policyv1.ReleaseAnswer, bool) {
		switch answer.GetRelease().GetVerdict().GetVerdict().(type) {
		case nil, *policyv1.ReleaseVerdict_Defer:
			return nil, false
		}
		return answer.GetRelease(), true
	})
}

// Provisioning asks how a cluster recovers when one of its operations failed.
func (p Policies) Provisioning(
	ctx context.Context, question *policyv1.ProvisioningQuestion, own func() *policyv1.ProvisioningAnswer,
) Decision[*policyv1.ProvisioningAnswer] {
	asked := &policyv1.Question{Slot: &policyv1.Question_Provisioning{Provisioning: question}}
	return ask(ctx, p, asked, own, func(answer *policyv1.Answer) (*policyv1.ProvisioningAnswer, bool) {
		return answer.GetProvisioning(), answer.GetProvisioning().GetVerdict().GetRecover() != nil
	})
}

// Placement asks in which zone, and of which type, servers are created next.
func (p Policies) Placement(
	ctx context.Context, question *policyv1.PlacementQuestion, own func() *policyv1.PlacementAnswer,
) Decision[*policyv1.PlacementAnswer] {
	asked := &policyv1.Question{Slot: &policyv1.Question_Placement{Placement: question}}
	return ask(ctx, p, asked, own, func(answer *policyv1.Answer) (*policyv1.PlacementAnswer, bool) {
		return answer.GetPlacement(), answer.GetPlacement().GetVerdict().GetPlace() != nil
	})
}

// ask puts one question. take returns false for an answer that decides nothing, or is of another slot.
func ask[A any](
	ctx context.Context, p Policies, question *policyv1.Question, own func() A, take func(*policyv1.Answer) (A, bool),
) Decision[A] {
	decision, err := p.one(ctx, question)
	if err == nil {
		if answer, ok := take(decision.GetAnswer()); ok {
			return Decision[A]{
				Answer: answer, Reason: decision.GetReason(), ID: decision.GetId(),
				DecidedBy: decision.GetPolicy(), Fallbacks: decision.GetFallbacks(),
			}
		}
		err = ErrDeferred
	}
	return Decision[A]{Answer: own(), Err: err}
}

func (p Policies) one(ctx context.Context, question *policyv1.Question) (*policyv1.Decision, error) {
	outcomes, err := p.Decide(ctx, question)
	if err != nil {
		return nil, err
	}
	if refused := outcomes[0].GetError(); refused != nil {
		return nil, &ServerError{Code: refused.GetCode(), Message: refused.GetMessage()}
	}
	decision := outcomes[0].GetDecision()
	switch {
	case decision == nil:
		return nil, fmt.Errorf("%w: neither a decision nor an error", ErrMalformed)
	case p.client.own && (decision.GetKeep() != nil || decision.GetPolicy().GetBuiltIn()):
		return nil, ErrBuiltIn
	}
	return decision, nil
}
