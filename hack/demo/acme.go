package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/acme"

	"github.com/certplane/certplane/internal/apitest/freeport"
)

// serverFile is the configuration of the server.
const serverFile = `apiVersion: config.certplane.dev/v1alpha1
kind: ServerConfiguration
acmeServer:
  listen: ACME_ADDRESS
  externalURL: https://ACME_ADDRESS
`

// acmeFile contains the objects for ACME clients. Everything in the demo is at loopback
// addresses, which an endpoint has to permit.
const acmeFile = `apiVersion: v1
kind: ServiceAccount
metadata: {namespace: default, name: web}
---
apiVersion: certplane.dev/v1alpha1
kind: Signer
metadata: {name: hosts}
spec:
  signerName: demo.example/hosts
  requests: [CertificateSigningRequest]
  ca: {generated: {}}
  profile:
    names: {dnsNames: request.dnsNames, ipAddresses: request.ipAddresses}
    usages: [digital signature, key encipherment, server auth]
---
apiVersion: certplane.dev/v1alpha1
kind: AcmeEndpoint
metadata:
  name: demo
  annotations: {acme.certplane.dev/allow-local: "true"}
spec:
  accounts:
    admission: Open
    serviceAccount: {namespace: default, name: web}
  identifiers: {ip: {allow: [127.0.0.1/32]}}
  profiles: [{name: server, signer: {name: demo.example/hosts}}]
  challenges:
    types: [http-01]
    http01: {ports: [WEB_PORT]}
    networks: {allow: [127.0.0.0/8]}
`

// writeFiles writes the files that the commands name.
func (d *demo) writeFiles() error {
	for _, address := range []*string{&d.acmeAddress, &d.webAddress} {
		var err error
		if *address, err = freeport.Address(); err != nil {
			return err
		}
	}
	_, port, err := net.SplitHostPort(d.webAddress)
	if err != nil {
		return err
	}
	fill := strings.NewReplacer("ACME_ADDRESS", d.acmeAddress, "WEB_PORT", port)
	for name, text := range map[string]string{"server.yaml": serverFile, "acme.yaml": acmeFile} {
		if err := os.WriteFile(filepath.Join(d.dir, name), []byte(fill.Replace(text)), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// acmeSteps take a certificate from an ACME client's request to its request in the
// API.
func (d *demo) acmeSteps() []step {
	directory := "https://" + d.acmeAddress + "/acme/demo/directory"
	return []step{
		{say: "Hosts get certificates by ACME, as from a public CA. An administrator declares a signer and\n# a directory:", args: strings.Fields("kubectl apply -f acme.yaml")},
		{say: "Clients with an account there act as a ServiceAccount, whose requests need no person:", args: strings.Fields("certplane acme allow -n default web --endpoint demo --autoapprove --apply")},
		{args: strings.Fields("kubectl wait acmeendpoint/demo --for=condition=Ready --timeout=30s")},
		{say: "A host trusts the server,", args: strings.Fields("certplane acme trust demo --out roots.pem")},
		{
			say:  "and its ACME client proves that it has its address (here golang.org/x/crypto/acme; certbot and\n# other clients do the same):",
			args: []string{"acme-client", "--roots", "roots.pem", "--server", directory, "127.0.0.1"},
			run:  func(ctx context.Context) error { return d.order(ctx, directory, "127.0.0.1") },
		},
		{say: "The order is an object, and has become a request like that of Alice:", args: strings.Fields("kubectl get acmeorders")},
		{args: strings.Fields("kubectl get csr")},
	}
}

// order gets a certificate for an address by http-01.
func (d *demo) order(ctx context.Context, directory, address string) error {
	roots, err := os.ReadFile(filepath.Join(d.dir, "roots.pem"))
	if err != nil {
		return err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(roots)
	accountKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	client := &acme.Client{
		Key: accountKey, DirectoryURL: directory, UserAgent: "certplane-demo",
		HTTPClient: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}}},
	}
	if _, err := client.Register(ctx, &acme.Account{}, acme.AcceptTOS); err != nil {
		return fmt.Errorf("registering an account: %w", err)
	}
	order, err := client.AuthorizeOrder(ctx, acme.IPIDs(address))
	if err != nil {
		return fmt.Errorf("ordering: %w", err)
	}
	for _, url := range order.AuthzURLs {
		if err := d.prove(ctx, client, url); err != nil {
			return err
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{IPAddresses: []net.IP{net.ParseIP(address)}}, key)
	if err != nil {
		return err
	}
	chain, _, err := client.CreateOrderCert(ctx, order.FinalizeURL, csr, true)
	if err != nil {
		return fmt.Errorf("getting the certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(chain[0])
	if err != nil {
		return err
	}
	fmt.Printf("a certificate for %v, issued by %s, valid until %s\n", leaf.IPAddresses, leaf.Issuer, leaf.NotAfter.Format(time.RFC3339))
	return nil
}

// prove answers the http-01 challenge of an authorization.
func (d *demo) prove(ctx context.Context, client *acme.Client, url string) error {
	authorization, err := client.GetAuthorization(ctx, url)
	if err != nil {
		return err
	}
	if len(authorization.Challenges) != 1 || authorization.Challenges[0].Type != "http-01" {
		return errors.New("the server does not offer http-01")
	}
	challenge := authorization.Challenges[0]
	answer, err := client.HTTP01ChallengeResponse(challenge.Token)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", d.webAddress)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc(client.HTTP01ChallengePath(challenge.Token), func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) })
	web := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	defer web.Close()
	go func() { _ = web.Serve(listener) }()
	if _, err := client.Accept(ctx, challenge); err != nil {
		return err
	}
	if _, err := client.WaitAuthorization(ctx, url); err != nil {
		return fmt.Errorf("proving the address: %w", err)
	}
	return nil
}
