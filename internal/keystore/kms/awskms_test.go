//go:build awskms

package kms

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/pki"
)

const awsKeyID = "1234abcd-12ab-34cd-56ef-1234567890ab"

// fakeAWS speaks the JSON protocol of AWS KMS for one key, and has the
// vendor's library speak to it.
func fakeAWS(t *testing.T, key crypto.Signer) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			KeyID, SigningAlgorithm, MessageType string
			Message                              []byte
		}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			t.Error(err)
		}
		answer := map[string]any{"KeyId": request.KeyID}
		var err error
		switch {
		case request.KeyID != awsKeyID:
			w.WriteHeader(http.StatusBadRequest)
			answer["__type"] = "NotFoundException"
		case r.Header.Get("X-Amz-Target") == "TrentService.GetPublicKey":
			answer["PublicKey"], err = x509.MarshalPKIXPublicKey(key.Public())
		case request.SigningAlgorithm == "ECDSA_SHA_256" && request.MessageType == "DIGEST":
			answer["Signature"], err = key.Sign(rand.Reader, request.Message, crypto.SHA256)
		default:
			t.Errorf("unexpected request %s %+v", r.Header.Get("X-Amz-Target"), request)
		}
		if err != nil {
			t.Error(err)
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_MAX_ATTEMPTS": "1",
		"AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
	} {
		t.Setenv(name, value)
	}
}

func TestAWS(t *testing.T) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	other, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	fakeAWS(t, key)
	uri := "awskms:key-id=" + awsKeyID + "?region=eu-central-1"
	service := serviceOf(t, uri)
	opened, err := service.Open(t.Context(), uri)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := opened.Find(t.Context(), other.Public()); err == nil || !strings.Contains(err.Error(), "does not belong to the CA certificate") {
		t.Errorf("another CA's key: %v", err)
	}
	signer, err := opened.Find(t.Context(), key.Public())
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256([]byte("to be signed"))
	signature, err := signer.Sign(rand.Reader, digest[:], crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	if !ecdsa.VerifyASN1(key.Public().(*ecdsa.PublicKey), digest[:], signature) {
		t.Error("the signature is wrong")
	}
	if err := opened.Close(); err != nil {
		t.Error(err)
	}
	_, err = service.Open(t.Context(), strings.Replace(uri, "1234abcd", "nosuch", 1))
	if err == nil || !strings.Contains(err.Error(), "opening the key awskms:key-id=nosuch") || !strings.Contains(err.Error(), "NotFoundException") {
		t.Errorf("a key that is not there: %v", err)
	}
}
