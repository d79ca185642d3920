// Command webhook-signer is a small signing endpoint: the other side of
// signing.webhooks in certplane's configuration. It is an example to start
// from.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

const usage = `Usage:
  webhook-signer keys DIR      makes all keys and certificates for a trial
  webhook-signer serve [flags] signs (webhook-signer serve -h for the flags)
`

func main() {
	if err := run(os.Args[1:]); err != nil {
		log.Fatalf("webhook-signer: %v", err)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "keys":
		return makeKeys(args[1], time.Now())
	case len(args) >= 1 && args[0] == "serve":
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return serve(ctx, args[1:])
	}
	fmt.Fprint(os.Stderr, usage)
	return errors.New("no such command")
}

func serve(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	listen := flags.String("listen", "127.0.0.1:9443", "address to serve at")
	dir := flags.String("dir", ".", "folder with the files that \"webhook-signer keys\" makes")
	name := flags.String("signer", "example.com/my-signer", "the name of this signer")
	domain := flags.String("domain", "example.com", "the domain under which certificates are issued")
	_ = flags.Parse(args) // exits on errors

	ca, err := loadCA(filepath.Join(*dir, "ca.crt"), filepath.Join(*dir, "ca.key"))
	if err != nil {
		return err
	}
	tlsConfig, err := mutualTLS(*dir)
	if err != nil {
		return err
	}
	server := &http.Server{
		Addr:        *listen,
		Handler:     &endpoint{signer: signer{name: *name, domain: *domain, ca: ca}},
		TLSConfig:   tlsConfig,
		ReadTimeout: 10 * time.Second,
	}
	context.AfterFunc(ctx, func() {
		ending, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = server.Shutdown(ending)
	})
	log.Printf("signing for %s at https://%s/sign", *name, *listen)
	if err := server.ListenAndServeTLS("", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// mutualTLS admits only the holder of certplane's key: an endpoint that does
// not authenticate its callers signs for every client.
func mutualTLS(dir string) (*tls.Config, error) {
	own, err := tls.LoadX509KeyPair(filepath.Join(dir, "endpoint.crt"), filepath.Join(dir, "endpoint.key"))
	if err != nil {
		return nil, fmt.Errorf("reading the endpoint's certificate: %w", err)
	}
	client, err := os.ReadFile(filepath.Join(dir, "certplane.crt"))
	if err != nil {
		return nil, fmt.Errorf("reading certplane's certificate: %w", err)
	}
	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM(client) {
		return nil, errors.New("certplane.crt contains no certificate")
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{own},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    clients,
	}, nil
}
