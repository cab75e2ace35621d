module github.com/windlass-dev/windlass/clients/go

go 1.25

require google.golang.org/protobuf v1.36.11
