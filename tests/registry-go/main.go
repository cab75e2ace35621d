// A registry for tests: go-containerregistry's, in memory, on loopback. Its first line on stdout is its address.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"

	"github.com/google/go-containerregistry/pkg/registry"
)

func main() {
	referrers := flag.Bool("referrers", false, "answer the referrers API")
	flag.Parse()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	handler := registry.New(registry.WithReferrersSupport(*referrers), registry.Logger(log.New(io.Discard, "", 0)))
	fmt.Println(listener.Addr())
	log.Fatal(http.Serve(listener, handler))
}
