package main

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"math/big"
	"runtime"
	"time"
)

// signingResult is the cost of certificates elsewhere: of step-ca's sign call, and of a loop
// that does nothing but sign, whose CPU is the client's.
type signingResult struct {
	Name string `json:"name"`
	roundResult
}

// cpu is user and system time for each certificate, of the server if there is one.
func (r signingResult) cpu() float64 {
	return cmp.Or(r.ServerCPUMilliseconds, r.ClientCPUMilliseconds)
}

// measureSigning measures step-ca, if its program is found, and the loop.
func measureSigning(ctx context.Context, opts options, to *results) error {
	if missing := missingPeers(opts.assets, stepCAPeer); missing != "" {
		log.Printf("step-ca is not measured: %s", missing)
	} else {
		result, err := measureStepCA(ctx, opts)
		if err != nil {
			return fmt.Errorf("step-ca: %w", err)
		}
		to.Signing = append(to.Signing, signingResult{stepCAPeer, result})
	}
	result, err := signInLoop(ctx, opts.signatures)
	if err != nil {
		return err
	}
	to.Signing = append(to.Signing, signingResult{"loop", result})
	return nil
}

// signInLoop signs certificates with a CA of the kind that certplane makes, on
// all processors. Nothing is checked, stored or sent.
func signInLoop(ctx context.Context, certificates int) (roundResult, error) {
	ca, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return roundResult{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return roundResult{}, err
	}
	now := time.Now()
	parent := &x509.Certificate{
		Subject: pkix.Name{CommonName: "loop"}, IsCA: true, BasicConstraintsValid: true,
		SubjectKeyId: []byte("the key of the loop"), KeyUsage: x509.KeyUsageCertSign,
	}
	return (&system{}).measureRound(ctx, round{runtime.GOMAXPROCS(0), certificates}, func(_ string, i int) error {
		_, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
			SerialNumber: big.NewInt(int64(i) + 1), Subject: pkix.Name{CommonName: "requester"},
			NotBefore: now, NotAfter: now.Add(time.Hour), BasicConstraintsValid: true,
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}, parent, key.Public(), ca)
		return err
	})
}

func writeSigning(out io.Writer, all []signingResult) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(out)
	for _, r := range all {
		fmt.Fprintf(out, "%s: %d certificates (%d errors), %.0f a second, %.2f ms of CPU each", r.Name, r.Certificates, r.Errors, r.Rate, r.cpu())
		if r.ServerCPUMilliseconds > 0 {
			fmt.Fprintf(out, " (and %.2f of the client's), p50 %.1f ms, p99 %.0f ms, %.0f MB", r.ClientCPUMilliseconds, r.P50Milliseconds, r.P99Milliseconds, r.MemoryMB)
		}
		fmt.Fprintln(out, ".")
	}
}
