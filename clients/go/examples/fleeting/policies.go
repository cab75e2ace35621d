package main

import (
	"context"
	"time"

	pb "github.com/windlass-dev/windlass/clients/go/policyv1"
	"gitlab.com/gitlab-org/fleeting/fleeting/provider"
)

// Update reports each machine as the policies of the slot state-mapping say, and deletes those that they want reaped.
func (g *group) Update(ctx context.Context, report func(instance string, state provider.State)) error {
	machines := g.list()
	question := &pb.StateMappingQuestion{
		Now: uint64(time.Now().UnixMilli()), Zone: "here", ServerTypes: []string{"small"},
		Subject: &pb.Subject{Program: pb.Program_PROGRAM_OTHER, Owner: "example"},
	}
	for _, machine := range machines {
		question.Servers = append(question.Servers, machine.asked())
	}
	decision := g.policies.StateMapping(ctx, question, func() []*pb.StateMappingAnswer { return ownDefault(machines) })
	for place, answer := range decision.Answer {
		mapped, id := answer.GetVerdict().GetMapped(), machines[place].id
		if mapped.GetAction() == pb.StateMappingAction_STATE_MAPPING_ACTION_REAP {
			g.delete(id)
			report(id, provider.StateDeleting)
		} else if state, reported := states[mapped.GetReport()]; reported {
			report(id, state)
		}
	}
	return nil
}

// asked is a machine in the words of the question.
func (m machine) asked() *pb.StateMappingServer {
	state := pb.StateMappingServerState_STATE_MAPPING_SERVER_STATE_STOPPED
	if m.running {
		state = pb.StateMappingServerState_STATE_MAPPING_SERVER_STATE_RUNNING
	}
	return &pb.StateMappingServer{
		State: state, HasRun: m.hasRun, StateAge: uint64(time.Since(m.since).Milliseconds()),
		Detail:   pb.StateMappingStateDetail_STATE_MAPPING_STATE_DETAIL_NONE,
		InFlight: pb.StateMappingOperation_STATE_MAPPING_OPERATION_NONE,
	}
}

// ownDefault applies while no server answers: what runs is reported, what doesn't is left alone until somebody judges.
func ownDefault(machines []machine) []*pb.StateMappingAnswer {
	answers := make([]*pb.StateMappingAnswer, 0, len(machines))
	for _, machine := range machines {
		mapping := &pb.StateMappingMapping{Action: pb.StateMappingAction_STATE_MAPPING_ACTION_NONE,
			Report: pb.StateMappingReport_STATE_MAPPING_REPORT_NONE}
		if machine.running {
			mapping.Report = pb.StateMappingReport_STATE_MAPPING_REPORT_RUNNING
		}
		verdict := &pb.StateMappingVerdict{Verdict: &pb.StateMappingVerdict_Mapped{Mapped: mapping}}
		answers = append(answers, &pb.StateMappingAnswer{Verdict: verdict})
	}
	return answers
}

// states are the runner's words for what is reported; of what has none it is not told.
var states = map[pb.StateMappingReport]provider.State{
	pb.StateMappingReport_STATE_MAPPING_REPORT_CREATING:   provider.StateCreating,
	pb.StateMappingReport_STATE_MAPPING_REPORT_RUNNING:    provider.StateRunning,
	pb.StateMappingReport_STATE_MAPPING_REPORT_DELETING:   provider.StateDeleting,
	pb.StateMappingReport_STATE_MAPPING_REPORT_DELETED:    provider.StateDeleted,
	pb.StateMappingReport_STATE_MAPPING_REPORT_TIMEOUT:    provider.StateTimeout,
	pb.StateMappingReport_STATE_MAPPING_REPORT_SUSPENDING: provider.StateSuspending,
	pb.StateMappingReport_STATE_MAPPING_REPORT_SUSPENDED:  provider.StateSuspended,
	pb.StateMappingReport_STATE_MAPPING_REPORT_RESUMING:   provider.StateResuming,
}
