package windlass_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	windlass "github.com/windlass-dev/windlass/clients/go"
	"github.com/windlass-dev/windlass/clients/go/policyv1"
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
	if decision.Reason != "waits 1234" || decision.ID == "" || decision.DecidedBy.GetSlot() != "retry" ||
		decision.DecidedBy.GetBuiltIn() {
		t.Errorf("%+v", decision)
	}
}

// own counts how often the caller's own default was asked for.
type own struct{ asked int }

func (o *own) giveUp() *policyv1.RetryAnswer {
	o.asked++
	return giveUp()
}

// expectOwn puts the question and expects the caller's own default, and why.
func expectOwn(t *testing.T, client *windlass.Client, ctx context.Context) error {
	t.Helper()
	var own own
	decision := client.Retry(ctx, gatewayFailed(), own.giveUp)
	if own.asked != 1 || decision.Err == nil || decision.DecidedBy != nil || decision.ID != "" {
		t.Fatalf("not the own default: %+v", decision)
	}
	if _, is := decision.Answer.GetVerdict().GetVerdict().(*policyv1.RetryVerdict_GiveUp); !is {
		t.Fatalf("%+v", decision.Answer)
	}
	return decision.Err
}

func expectWait(t *testing.T, policies windlass.Policies, wait uint64) {
	t.Helper()
	decision := policies.Retry(context.Background(), gatewayFailed(), giveUp)
	if decision.Err != nil || decision.Answer.GetVerdict().GetWait() != wait {
		t.Fatalf("not %d: %+v", wait, decision)
	}
}

// eventually waits for what the server notices by itself, for far longer than it takes.
func eventually(t *testing.T, what string, isSo func() bool) {
	t.Helper()
	for range 6000 {
		if isSo() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("it never came to this: %s", what)
}

func waits(policies windlass.Policies) uint64 {
	return policies.Retry(context.Background(), gatewayFailed(), giveUp).Answer.GetVerdict().GetWait()
}

func TestEverySlotIsAnswered(t *testing.T) {
	server := newServer(t, "1")
	client := newClient(t, server.socket, patient)
	ctx, now := context.Background(), uint64(1_767_225_600_000)

	mapping := client.StateMapping(ctx, &policyv1.StateMappingQuestion{
		Now: now, Subject: subject(), Zone: "fr-par-1", ServerTypes: []string{"DEV1-S"}, Servers: []*policyv1.StateMappingServer{
			{State: policyv1.StateMappingServerState_STATE_MAPPING_SERVER_STATE_RUNNING,
				Detail: policyv1.StateMappingStateDetail_STATE_MAPPING_STATE_DETAIL_BOOTED, HasRun: true,
				InFlight: policyv1.StateMappingOperation_STATE_MAPPING_OPERATION_NONE},
			{State: policyv1.StateMappingServerState_STATE_MAPPING_SERVER_STATE_STOPPED,
				Detail: policyv1.StateMappingStateDetail_STATE_MAPPING_STATE_DETAIL_NONE, HasRun: true,
				InFlight: policyv1.StateMappingOperation_STATE_MAPPING_OPERATION_NONE},
		},
	}, func() []*policyv1.StateMappingAnswer { return nil })
	if mapping.Err != nil || len(mapping.Answer) != 2 {
		t.Fatalf("%+v", mapping)
	}
	report := mapping.Answer[0].GetVerdict().GetMapped().GetReport()
	if report != policyv1.StateMappingReport_STATE_MAPPING_REPORT_RUNNING {
		t.Errorf("%v", report)
	}
	action := mapping.Answer[1].GetVerdict().GetMapped().GetAction()
	if action != policyv1.StateMappingAction_STATE_MAPPING_ACTION_REAP {
		t.Errorf("%v", action)
	}

	rollback := client.Rollback(ctx, &policyv1.RollbackQuestion{
		Now: now, Operation: "create-server", Subject: subject(), Resources: []*policyv1.RollbackResource{{
			Kind: policyv1.ResourceKind_RESOURCE_KIND_SERVER, Id: "1", Name: "web", Owned: true,
			Evidence: policyv1.RollbackEvidence_ROLLBACK_EVIDENCE_JOURNAL,
		}},
	}, func() *policyv1.RollbackAnswer { return nil })
	if rollback.Err != nil || len(rollback.Answer.GetVerdict().GetPlan().GetItems()) == 0 {
		t.Errorf("%+v", rollback)
	}

	release := client.Release(ctx, &policyv1.ReleaseQuestion{
		Now: now, Subject: subject(), Trigger: policyv1.ReleaseTrigger_RELEASE_TRIGGER_RELEASED, Attempt: 1, Machine: &policyv1.ReleaseMachine{
			Kind: policyv1.ReleaseMachineKind_RELEASE_MACHINE_KIND_INSTANCE, Id: "1", Name: "web", Zone: "fr-par-1",
			MachineType: "DEV1-S", Status: "running", CreatedAt: now, Activity: &policyv1.ReleaseActivity{},
		},
	}, func() *policyv1.ReleaseAnswer { return nil })
	_, terminates := release.Answer.GetVerdict().GetVerdict().(*policyv1.ReleaseVerdict_Terminate)
	if release.Err != nil || !terminates {
		t.Errorf("%+v", release)
	}

	provisioning := client.Provisioning(ctx, &policyv1.ProvisioningQuestion{
		Now: now, Subject: subject(), Operation: policyv1.ProvisioningOperation_PROVISIONING_OPERATION_CREATE,
		Stage: policyv1.ProvisioningStage_PROVISIONING_STAGE_SERVERS, Cause: gatewayFailed().Failure,
		Nodes: []*policyv1.ProvisioningNode{{
			Name: "n", Group: "g", Role: policyv1.ProvisioningNodeRole_PROVISIONING_NODE_ROLE_MADE, Exists: true,
		}},
	}, func() *policyv1.ProvisioningAnswer { return nil })
	if provisioning.Err != nil || len(provisioning.Answer.GetVerdict().GetRecover().GetDelete()) != 1 {
		t.Errorf("%+v", provisioning)
	}

	placement := client.Placement(ctx, &policyv1.PlacementQuestion{
		Now: now, Operation: "create-server", Subject: subject(), Wanted: 3,
		Places: []*policyv1.PlacementPlace{{Zone: "fr-par-1", ServerType: "DEV1-S"}},
	}, func() *policyv1.PlacementAnswer { return nil })
	if placement.Err != nil || placement.Answer.GetVerdict().GetPlace().GetItems()[0].GetCount() != 3 {
		t.Errorf("%+v", placement)
	}
}

func TestABatchIsAnsweredQuestionByQuestion(t *testing.T) {
	server := newServer(t, "5")
	client := newClient(t, server.socket, patient)
	retry := func(question *policyv1.RetryQuestion) *policyv1.Question {
		return &policyv1.Question{Slot: &policyv1.Question_Retry{Retry: question}}
	}
	outcomes, err := client.Decide(context.Background(), retry(gatewayFailed()), retry(&policyv1.RetryQuestion{}),
		&policyv1.Question{}, retry(gatewayFailed()))
	if err != nil {
		t.Fatal(err)
	}
	for _, place := range []int{0, 3} {
		if wait := outcomes[place].GetDecision().GetAnswer().GetRetry().GetVerdict().GetWait(); wait != 5 {
			t.Errorf("%d: %v", place, outcomes[place])
		}
	}
	for place, words := range map[int]string{1: "the question to the slot retry: the field failure is missing",
		2: "the question is of no slot that this server knows"} {
		if refused := outcomes[place].GetError(); refused.GetMessage() != words ||
			refused.GetCode() != policyv1.Error_CODE_INVALID {
			t.Errorf("%d: %v", place, outcomes[place])
		}
	}
}

func TestAPinKeepsItsPoliciesAcrossASwapAndAKilledServer(t *testing.T) {
	server := newServer(t, "1")
	client := newClient(t, server.socket, patient)
	pin, err := client.Pin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	server.rules("2")
	eventually(t, "the new rules decide", func() bool { return waits(client.Policies) == 2 })
	expectWait(t, client.Pinned(pin.Token), 1)
	server.kill()
	expectOwn(t, client, context.Background())
	server.start()
	expectWait(t, client.Policies, 2)
	expectWait(t, client.Pinned(pin.Token), 1)
}

func TestAHangupReadsTheConfigurationAgain(t *testing.T) {
	server := newServer(t, "1")
	client := newClient(t, server.socket, patient)
	expectWait(t, client.Policies, 1)
	server.write("config.toml", "[policies.retry]\npath = 3\n")
	server.signal(syscall.SIGHUP)
	server.write("other.rules.toml", `slot = "retry"
[[rules]]
name = "r"
when = "true"
answer = { wait = 77 }
`)
	expectWait(t, client.Policies, 1)
	server.write("config.toml", "[policies.retry]\npath = \""+server.folder+"/other.rules.toml\"\n")
	eventually(t, "the other policy decides", func() bool {
		server.signal(syscall.SIGHUP)
		return waits(client.Policies) == 77
	})
}

func TestTheStatusTellsOfPoliciesAndDecisions(t *testing.T) {
	server := newServer(t, "1")
	client := newClient(t, server.socket, patient)
	expectWait(t, client.Policies, 1)
	status, err := client.Status(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	link := status.GetLinks()[0]
	for _, candidate := range status.GetLinks() {
		if candidate.GetPolicy().GetSlot() == "retry" && candidate.GetPosition() == 0 {
			link = candidate
		}
	}
	if link.GetSource() != server.folder+"/retry.rules.toml" || link.GetSuspended() ||
		len(link.GetPolicy().GetComponent()) != 64 {
		t.Errorf("%v", link)
	}
	if status.GetCounters().GetDecisions() != 1 || status.GetCounters().GetOpenConnections() == 0 {
		t.Errorf("%v", status.GetCounters())
	}
}

func TestWhereNoConfiguredPolicyDecidesTheOwnDefaultMay(t *testing.T) {
	server := newServer(t, "1")
	conflict := gatewayFailed()
	conflict.Failure.Class = policyv1.FailureClass_FAILURE_CLASS_CONFLICT
	client := newClient(t, server.socket, windlass.Options{Timeout: time.Minute, OwnDefaults: true})
	expectWait(t, client.Policies, 1)
	if decision := client.Retry(context.Background(), conflict, giveUp); !errors.Is(decision.Err, windlass.ErrBuiltIn) {
		t.Errorf("%+v", decision)
	}
	decision := newClient(t, server.socket, patient).Retry(context.Background(), conflict, giveUp)
	if decision.Err != nil || !decision.DecidedBy.GetBuiltIn() {
		t.Errorf("%+v", decision)
	}
}

func TestADeadServerMeansTheOwnDefault(t *testing.T) {
	client := newClient(t, filepath.Join(t.TempDir(), "nobody.sock"), patient)
	if err := expectOwn(t, client, context.Background()); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := client.Pin(context.Background()); err == nil {
		t.Error("a dead server has no pin")
	}
	client.Close()
	if err := expectOwn(t, client, context.Background()); !errors.Is(err, windlass.ErrClosed) {
		t.Error(err)
	}
}

func TestAServerThatHangsMeansTheOwnDefaultWithinTheTime(t *testing.T) {
	server := newServer(t, "1")
	expectWait(t, newClient(t, server.socket, patient).Policies, 1)
	client := newClient(t, server.socket, windlass.Options{Timeout: 50 * time.Millisecond, Connections: 2})
	server.stop()
	for range 4 {
		if err := expectOwn(t, client, context.Background()); !errors.Is(err, context.DeadlineExceeded) &&
			!errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	}
	// Called off by the caller, long before the time is over.
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(time.Millisecond, cancel)
	if err := expectOwn(t, newClient(t, server.socket, patient), ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	server.signal(syscall.SIGCONT)
	eventually(t, "it decides again", func() bool { return waits(client.Policies) == 1 })
}

// TestNothingIsLostWhileServersAreKilledAndRulesSwapped has eight callers ask without a pause: each question gets an
// answer of the rules as they are or were, or the own default while no server is there.
func TestNothingIsLostWhileServersAreKilledAndRulesSwapped(t *testing.T) {
	server := newServer(t, "1")
	client := newClient(t, server.socket, windlass.Options{Timeout: time.Minute, Connections: 4})
	stop := make(chan struct{})
	var decided, own atomic.Int64
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				decision := client.Retry(context.Background(), gatewayFailed(), giveUp)
				switch wait := decision.Answer.GetVerdict().GetWait(); {
				case decision.Err != nil:
					own.Add(1)
				case wait < 1 || wait > 6:
					t.Errorf("%+v", decision)
				default:
					decided.Add(1)
				}
			}
		})
	}
	for round := 2; round <= 6; round++ {
		server.rules(strconv.Itoa(round))
		eventually(t, "the new rules decide", func() bool { return waits(client.Policies) == uint64(round) })
		if round%2 == 0 {
			before := own.Load()
			server.kill()
			eventually(t, "the own default applies", func() bool { return own.Load() > before })
			server.start()
			eventually(t, "the server decides again", func() bool { return waits(client.Policies) == uint64(round) })
		}
	}
	close(stop)
	group.Wait()
	if decided.Load() == 0 || own.Load() == 0 {
		t.Errorf("%d decided, %d by the own default", decided.Load(), own.Load())
	}
}
