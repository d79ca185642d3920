package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The actions of requests.
const (
	Present = "Present"
	CleanUp = "CleanUp"
)

// maxText is the maximum size of texts of webhooks in errors, in bytes.
const maxText = 512

// Request is a request to a webhook: the field request of a ChallengePayload,
// webhook.acme.cert-manager.io/v1alpha1. The fields are in the order on the wire.
type Request struct {
	// UID identifies the request. Webhooks repeat it.
	UID string `json:"uid"`
	// Action is Present or CleanUp.
	Action string `json:"action"`
	// Type is always dns-01.
	Type string `json:"type"`
	// DNSName is the name for which a certificate is ordered, without "*.".
	DNSName string `json:"dnsName"`
	// Key is the value of the TXT record.
	Key string `json:"key"`
	// ResourceNamespace is the namespace of the Secrets in Config.
	ResourceNamespace string `json:"resourceNamespace"`
	// ResolvedFQDN and ResolvedZone are the record and its zone, with final dots.
	ResolvedFQDN string `json:"resolvedFQDN,omitempty"`
	ResolvedZone string `json:"resolvedZone,omitempty"`
	// AllowAmbientCredentials allows the webhook to use its own credentials.
	AllowAmbientCredentials bool `json:"allowAmbientCredentials"`
	// Config is the configuration of the solver, unchanged.
	Config *apiextensionsv1.JSON `json:"config,omitempty"`
}

// encode returns the body of a call. Like cert-manager's, it has no apiVersion and no
// kind.
func encode(request Request) ([]byte, error) {
	var body bytes.Buffer
	payload := struct {
		Request Request `json:"request"`
	}{request}
	if err := json.NewEncoder(&body).Encode(payload); err != nil {
		return nil, fmt.Errorf("encoding the request for the webhook: %w", err)
	}
	return body.Bytes(), nil
}

// errNoResult has cert-manager's text.
var errNoResult = errors.New("invalid payload response, did not succeed but no result provided")

// judge returns the result in an answer with a successful status.
func judge(body []byte) error {
	var payload struct {
		Response *struct {
			Success bool           `json:"success"`
			Result  *metav1.Status `json:"status"`
		} `json:"response"`
	}
	if err := json.Unmarshal(body, &payload); err != nil {
		return errors.New("the webhook's answer is not a ChallengePayload")
	}
	switch response := payload.Response; {
	case response == nil:
		return errNoResult
	case response.Success:
		return nil
	case response.Result == nil || presentable(response.Result.Message) == "":
		return errNoResult
	default:
		return errors.New(presentable(response.Result.Message))
	}
}

// presentable replaces line breaks, terminal escapes and the like by spaces,
// and cuts what is too long.
func presentable(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text[:min(len(text), maxText)], ""))
	return strings.TrimSpace(text)
}
