package serviceaccount

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"slices"
)

// The paths of the documents with which other services verify tokens.
const (
	ConfigPath = "/.well-known/openid-configuration"
	KeysPath   = "/openid/v1/jwks"
)

// maxAge is how long clients may cache the documents, in seconds.
const maxAge = 3600

// providerMetadata is the part of OpenID Provider Metadata that is needed to
// verify a token (OpenID Connect Discovery 1.0 section 3).
type providerMetadata struct {
	Issuer        string   `json:"issuer"`
	KeysURI       string   `json:"jwks_uri"`
	ResponseTypes []string `json:"response_types_supported"`
	SubjectTypes  []string `json:"subject_types_supported"`
	Algorithms    []string `json:"id_token_signing_alg_values_supported"`
}

// jsonWebKey is a public key (RFC 7517 section 4).
type jsonWebKey struct {
	Use       string `json:"use"`
	Type      string `json:"kty"`
	ID        string `json:"kid"`
	Curve     string `json:"crv,omitempty"`
	Algorithm string `json:"alg"`
	// X and Y are a point of an elliptic curve (RFC 7518 section 6.2).
	X string `json:"x,omitempty"`
	Y string `json:"y,omitempty"`
	// N and E are an RSA key (RFC 7518 section 6.3).
	N string `json:"n,omitempty"`
	E string `json:"e,omitempty"`
}

// Documents returns the handlers of the discovery documents by their path.
// keysURI is the URI of KeysPath for clients.
func (i Issuer) Documents(keysURI string) (map[string]http.Handler, error) {
	config, err := json.Marshal(i.metadata(keysURI))
	if err != nil {
		return nil, fmt.Errorf("encoding the issuer's metadata: %w", err)
	}
	keys, err := i.Keys.marshal()
	if err != nil {
		return nil, err
	}
	return map[string]http.Handler{
		ConfigPath: document("application/json", config),
		KeysPath:   document("application/jwk-set+json", keys), // RFC 7517 section 8.5.1
	}, nil
}

func (i Issuer) metadata(keysURI string) providerMetadata {
	var algorithms []string
	for _, key := range i.Keys.verifying {
		algorithms = append(algorithms, key.method.Alg())
	}
	slices.Sort(algorithms)
	return providerMetadata{
		Issuer:        i.Name,
		KeysURI:       keysURI,
		ResponseTypes: []string{"id_token"},
		SubjectTypes:  []string{"public"},
		Algorithms:    slices.Compact(algorithms),
	}
}

func (k *Keys) marshal() ([]byte, error) {
	set := struct {
		Keys []jsonWebKey `json:"keys"`
	}{}
	for _, key := range k.verifying {
		encoded, err := key.encode()
		if err != nil {
			return nil, fmt.Errorf("encoding the issuer's key %s: %w", key.id, err)
		}
		set.Keys = append(set.Keys, encoded)
	}
	return json.Marshal(set)
}

func (k key) encode() (jsonWebKey, error) {
	out := jsonWebKey{Use: "sig", ID: k.id, Algorithm: k.method.Alg()}
	switch public := k.public.(type) {
	case *rsa.PublicKey:
		out.Type = "RSA"
		out.N = base64URL(public.N.Bytes())
		out.E = base64URL(big.NewInt(int64(public.E)).Bytes())
	case *ecdsa.PublicKey:
		point, err := public.Bytes() // 4, x, y (SEC 1 section 2.3.3)
		if err != nil {
			return jsonWebKey{}, err
		}
		half := len(point) / 2
		out.Type, out.Curve = "EC", public.Params().Name
		out.X, out.Y = base64URL(point[1:1+half]), base64URL(point[1+half:])
	}
	return out, nil
}

func base64URL(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

func document(contentType string, body []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Cache-Control", fmt.Sprintf("public, max-age=%d", maxAge))
		w.Write(body) // an error means that the client has disconnected
	})
}
