// Command pebble runs Pebble without the behaviour that hardens clients: it validates at
// once, accepts all good nonces and logs nothing. The benchmark compares it with
// certplane. It keeps all data in memory.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"k8s.io/client-go/util/cert"

	"github.com/certplane/certplane/internal/process/atomicfile"
)

// access contains the data that clients need to reach the server.
type access struct {
	Directory string `json:"directory"`
	// Roots verify its HTTPS certificate, as PEM.
	Roots string `json:"roots"`
}

func main() {
	dir := flag.String("dir", "", "Folder for the file access.json, with the address and roots of the server.")
	port := flag.Int("http-port", 80, "Port where clients answer http-01 challenges.")
	resolver := flag.String("resolver", "", "DNS server, as HOST:PORT. The default is the system's.")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *dir, *port, *resolver); err != nil {
		log.Fatalf("pebble: %v", err)
	}
}

func run(ctx context.Context, dir string, port int, resolver string) error {
	// Pebble reads these settings only from the environment.
	if err := errors.Join(os.Setenv("PEBBLE_VA_NOSLEEP", "1"), os.Setenv("PEBBLE_WFE_NONCEREJECT", "0"), os.Setenv("PEBBLE_AUTHZREUSE", "0")); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		return err
	}
	serving, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	quiet, store := log.New(io.Discard, "", 0), db.NewMemoryStore()
	authority := ca.New(quiet, store, "", "ecdsa", 0, 1, map[string]ca.Profile{"default": {Description: "The default profile"}})
	// 1 second is the shortest Retry-After that it sends; the benchmark's clients ignore it.
	front := wfe.New(quiet, store, va.New(quiet, port, 0, false, resolver, store), authority, []string{"pebble.example"}, false, false, 1, 1)
	server := &http.Server{Handler: front.Handler(), TLSConfig: &tls.Config{Certificates: []tls.Certificate{serving}}}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := announce(dir, access{"https://" + listener.Addr().String() + wfe.DirectoryPath, string(certificate)}); err != nil {
		return err
	}
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// announce writes access.json, which is complete once it exists.
func announce(dir string, how access) error {
	text, err := json.Marshal(how)
	if err != nil {
		return fmt.Errorf("encoding access.json: %w", err)
	}
	return atomicfile.Write(filepath.Join(dir, "access.json"), text, 0o600)
}
