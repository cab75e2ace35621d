module github.com/windlass-dev/windlass/clients/go/examples/fleeting

go 1.26.0

require (
	github.com/hashicorp/go-hclog v1.6.3
	github.com/windlass-dev/windlass/clients/go v0.0.0
	gitlab.com/gitlab-org/fleeting/fleeting v0.0.0-20260630131728-ef4ba33c8ab8
)

replace github.com/windlass-dev/windlass/clients/go => ../..
