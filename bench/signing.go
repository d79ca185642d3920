package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// signingResult is what others need for certificates: step-ca for its sign call,
// and a loop that does nothing but sign.
type signingResult struct {
	Name         string  `json:"name"`
	Certificates int     `json:"certificates"`
	Errors       int     `json:"errors"`
	Rate         float64 `json:"certificatesPerSecond"`
	// Latency is that of a call; 0 in the loop.
	P50Milliseconds float64 `json:"p50Milliseconds,omitempty"`
	P99Milliseconds float64 `json:"p99Milliseconds,omitempty"`
	// CPUMilliseconds is user and system time for each certificate, of the server if
	// there is one.
	CPUMilliseconds       float64 `json:"cpuMilliseconds"`
	ClientCPUMilliseconds float64 `json:"clientCPUMilliseconds,omitempty"`
	MemoryMB              float64 `json:"memoryMB,omitempty"`
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
		to.Signing = append(to.Signing, result)
	}
	result, err := signInLoop(ctx, opts.signatures)
	if err != nil {
		return err
	}
	to.Signing = append(to.Signing, result)
	return nil
}

// signInLoop signs certificates with a CA of the kind that certplane makes, on
// all processors. Nothing is checked, stored or sent.
func signInLoop(ctx context.Context, certificates int) (signingResult, error) {
	ca, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return signingResult{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return signingResult{}, err
	}
	now := time.Now()
	parent := &x509.Certificate{
		Subject: pkix.Name{CommonName: "loop"}, IsCA: true, BasicConstraintsValid: true,
		SubjectKeyId: []byte("the key of the loop"), KeyUsage: x509.KeyUsageCertSign,
	}
	sign := func(i int) error {
		_, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
			SerialNumber: big.NewInt(int64(i) + 1), Subject: pkix.Name{CommonName: "requester"},
			NotBefore: now, NotAfter: now.Add(time.Hour), BasicConstraintsValid: true,
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}, parent, key.Public(), ca)
		return err
	}
	measuring, err := startMeasuring(&system{})
	if err != nil {
		return signingResult{}, err
	}
	var next, failures atomic.Int64
	var loops sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		loops.Go(func() {
			for i := int(next.Add(1)) - 1; i < certificates && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if sign(i) != nil {
					failures.Add(1)
				}
			}
		})
	}
	loops.Wait()
	used, err := measuring.finish()
	return signingResult{
		Name: "loop", Certificates: certificates, Errors: int(failures.Load()),
		Rate: float64(certificates) / used.took.Seconds(), CPUMilliseconds: each(used.clientCPU, certificates),
	}, errors.Join(err, ctx.Err())
}

func writeSigning(out io.Writer, all []signingResult) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(out)
	for _, r := range all {
		fmt.Fprintf(out, "%s: %d certificates (%d errors), %.0f a second, %.2f ms of CPU each", r.Name, r.Certificates, r.Errors, r.Rate, r.CPUMilliseconds)
		if r.P50Milliseconds > 0 {
			fmt.Fprintf(out, " (and %.2f of the client's), p50 %.1f ms, p99 %.0f ms, %.0f MB", r.ClientCPUMilliseconds, r.P50Milliseconds, r.P99Milliseconds, r.MemoryMB)
		}
		fmt.Fprintln(out, ".")
	}
}
