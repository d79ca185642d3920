package crl_test

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/client/cli/crl"
)

func TestCRL(t *testing.T) {
	s := apitest.Start(t)
	run := func(signer string) (stdout, stderr string, err error) {
		var out, warnings bytes.Buffer
		err = crl.Run(t.Context(), crl.Config{
			Signer: signer, Connect: func() (*rest.Config, error) { return s.As(t, "anybody"), nil },
			Kubectl: func(words ...string) string { return strings.Join(words, " ") }, Now: time.Now(), Stdout: &out, Stderr: &warnings,
		})
		return out.String(), warnings.String(), err
	}
	const signer = "kubernetes.io/kube-apiserver-client"
	var text, warnings string
	apitest.Eventually(t, "the CAs have lists", func() (ok bool) {
		var err error
		text, warnings, err = run(signer)
		return err == nil && warnings == ""
	})
	var issuers []string
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		list, err := x509.ParseRevocationList(block.Bytes)
		if err != nil || block.Type != "X509 CRL" {
			t.Fatalf("block %s: %v", block.Type, err)
		}
		issuers = append(issuers, list.Issuer.CommonName)
	}
	if got := strings.Join(issuers, ", "); got != "certplane client CA, certplane client root CA" {
		t.Errorf("lists of %s", got)
	}
	if _, _, err := run("kubernetes.io/kube-apiserver-clients"); err == nil || !strings.Contains(err.Error(), "did you mean kubernetes.io/kube-apiserver-client?") {
		t.Errorf("another signer: %v", err)
	}
}
