// A registry for tests: go-containerregistry's, in memory, on loopback. Its first line on stdout is its address.
//
// With -ca it also speaks TLS, as 127.0.0.1 and as registry.invalid, by a certificate of an authority of its own, which
// it writes to that file; its second line is that address. At its first address it is a proxy then, which leads
// everybody who asks for a tunnel to registry.invalid to the second one, and nobody elsewhere.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

const name = "registry.invalid"

func main() {
	referrers := flag.Bool("referrers", false, "answer the referrers API")
	ca := flag.String("ca", "", "speak TLS too, and write the authority's certificate to this file")
	flag.Parse()
	handler := registry.New(registry.WithReferrersSupport(*referrers), registry.Logger(log.New(io.Discard, "", 0)))
	plain := listen()
	fmt.Println(plain.Addr())
	if *ca != "" {
		secure := listen()
		certificate := check(issue(*ca))
		server := http.Server{
			Handler:   handler,
			TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}},
			ErrorLog:  log.New(io.Discard, "", 0),
		}
		go func() { log.Fatal(server.ServeTLS(secure, "", "")) }()
		fmt.Println(secure.Addr())
		handler = tunnel(handler, secure.Addr().String())
	}
	log.Fatal(http.Serve(plain, handler))
}

func listen() net.Listener {
	return check(net.Listen("tcp", "127.0.0.1:0"))
}

// tunnel answers CONNECT for the registry's name.
func tunnel(registry http.Handler, address string) http.Handler {
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		if request.Method != http.MethodConnect {
			registry.ServeHTTP(writer, request)
			return
		}
		if request.Host != name+":443" {
			http.Error(writer, "no way to "+request.Host, http.StatusForbidden)
			return
		}
		there := check(net.Dial("tcp", address))
		writer.WriteHeader(http.StatusOK)
		here, buffered, err := writer.(http.Hijacker).Hijack()
		if err != nil {
			log.Fatal(err)
		}
		// What the client has sent by now may be in the buffer.
		go func() { io.Copy(there, buffered); there.Close() }()
		go func() { io.Copy(here, there); here.Close() }()
	})
}

// issue makes an authority, writes its certificate to a file, and has it certify the registry.
func issue(file string) (tls.Certificate, error) {
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "An authority of the tests"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	certified := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
		DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	signing := check(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	key := check(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	root := check(x509.CreateCertificate(rand.Reader, authority, authority, &signing.PublicKey, signing))
	leaf := check(x509.CreateCertificate(rand.Reader, certified, authority, &key.PublicKey, signing))
	err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root}), 0o600)
	return tls.Certificate{Certificate: [][]byte{leaf}, PrivateKey: key}, err
}

func check[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
