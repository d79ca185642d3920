package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// makeKeys makes three keys, each with a self-signed certificate: the CA (ca),
// this endpoint (endpoint) and certplane as its client (certplane).
func makeKeys(dir string, now time.Time) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, pair := range []struct {
		file     string
		template x509.Certificate
	}{
		{"ca", x509.Certificate{IsCA: true, KeyUsage: x509.KeyUsageCertSign}},
		{"endpoint", x509.Certificate{
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		}},
		{"certplane", x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}},
	} {
		template := pair.template
		template.SerialNumber = big.NewInt(now.UnixNano())
		template.Subject = pkix.Name{CommonName: "webhook-signer example " + pair.file}
		template.NotBefore, template.NotAfter = now, now.AddDate(1, 0, 0)
		template.BasicConstraintsValid = true
		template.KeyUsage |= x509.KeyUsageDigitalSignature
		if err := makePair(filepath.Join(dir, pair.file), &template); err != nil {
			return err
		}
	}
	return nil
}

// makePair writes PATH.key and PATH.crt. It overwrites nothing.
func makePair(path string, template *x509.Certificate) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := writePEM(path+".key", "PRIVATE KEY", private, 0o600); err != nil {
		return err
	}
	return writePEM(path+".crt", "CERTIFICATE", certificate, 0o644)
}

func writePEM(path, kind string, der []byte, mode os.FileMode) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if err := pem.Encode(file, &pem.Block{Type: kind, Bytes: der}); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}
