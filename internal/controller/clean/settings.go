package clean

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/policy/retention"
)

// Settings is the stanza "cleaning".
type Settings struct {
	// issued is how long a request is kept after its certificate was issued, counted from
	// its approval. The requester must fetch the certificate within this time. 0s keeps it
	// until the certificate has expired. Default: 1h, as in Kubernetes.
	Issued metav1.Duration `json:"issued"`
	// denied is how long a denied request is kept, counted from the denial. 0s
	// keeps it forever. Default: 1h, as in Kubernetes.
	Denied metav1.Duration `json:"denied"`
	// failed is how long a failed request is kept, counted from the failure.
	// 0s keeps it forever. Default: 1h, as in Kubernetes.
	Failed metav1.Duration `json:"failed"`
	// pending is how long a request waits for a decision. 0s: forever.
	// Default: 24h, as in Kubernetes.
	Pending metav1.Duration `json:"pending"`
	// approved is how long an approved request waits for its certificate,
	// counted from the approval. 0s: forever. Default: 24h, as in Kubernetes.
	Approved metav1.Duration `json:"approved"`
	// undecided is how long a request without a decision is kept if other clients added
	// conditions of their own types. 0s keeps it forever, as Kubernetes does. Default:
	// 168h, a week.
	Undecided metav1.Duration `json:"undecided"`
	// fetch is the minimum time for which an outcome is kept, so that the requester can
	// read it. Neither "issued" nor perRequester nor podRequests.maxPerNode deletes a
	// certificate sooner. Default: 5m.
	Fetch metav1.Duration `json:"fetch"`
	// perRequester limits the number of requests of one requester.
	PerRequester CapSettings `json:"perRequester"`
	// podRequests are the settings for PodCertificateRequests, if the API serves them.
	PodRequests PodSettings `json:"podRequests"`
}

// PodSettings is the stanza "cleaning.podRequests".
type PodSettings struct {
	// age is how long a request is kept, counted from its creation, whatever its outcome.
	// Nodes read outcomes within seconds, and create a new request if a request without an
	// outcome is deleted. 0s keeps requests until their pods are deleted. Default: 15m, as
	// in Kubernetes.
	Age metav1.Duration `json:"age"`
	// maxPerNode is the maximum number of requests with the same spec.nodeName. If there
	// are more, the oldest are deleted, as with "perRequester", so that a node that creates
	// requests in a loop cannot fill the store. Set it high enough for all certificates of
	// a node's pods at once. 0 means no limit. Default: 2000.
	MaxPerNode int `json:"maxPerNode"`
	// maxMiBPerNode is the maximum total size of these requests, in MiB. 0 means no limit.
	// Default: 64.
	MaxMiBPerNode int `json:"maxMiBPerNode"`
}

// CapSettings is the stanza "cleaning.perRequester".
type CapSettings struct {
	// max is the maximum number of requests with the same spec.username: of a user, a node
	// or a service account. If there are more, the oldest are deleted, so that a client
	// that creates requests in a loop cannot fill the store: first requests with an
	// outcome, then requests without a decision. They are kept for the time of "fetch",
	// unless there are more than ten times max. Approved requests that wait for their
	// certificate are never deleted. 0 means no limit. Default: 5000.
	Max int `json:"max"`
	// maxMiB is the maximum total size of these requests, in MiB. If it is exceeded, the
	// oldest are deleted in the same order. 0 means no limit. Default: 128.
	MaxMiB int `json:"maxMiB"`
	// exemptGroups are groups whose members are exempt from these limits. Default:
	// system:masters.
	ExemptGroups []string `json:"exemptGroups"`
}

// DefaultSettings returns the defaults.
func DefaultSettings() Settings {
	hours := func(n time.Duration) metav1.Duration { return metav1.Duration{Duration: n * time.Hour} }
	return Settings{
		Issued: hours(1), Denied: hours(1), Failed: hours(1),
		Pending: hours(24), Approved: hours(24), Undecided: hours(168),
		Fetch:        metav1.Duration{Duration: 5 * time.Minute},
		PerRequester: CapSettings{Max: 5000, MaxMiB: 128, ExemptGroups: []string{"system:masters"}},
		PodRequests:  PodSettings{Age: metav1.Duration{Duration: retention.DefaultPodAge}, MaxPerNode: 2000, MaxMiBPerNode: 64},
	}
}

// Validate returns an error for the first invalid value, with the name of its
// field.
func (s Settings) Validate() error {
	for _, limit := range []struct {
		field string
		value metav1.Duration
	}{
		{"issued", s.Issued}, {"denied", s.Denied}, {"failed", s.Failed}, {"pending", s.Pending},
		{"approved", s.Approved}, {"undecided", s.Undecided}, {"fetch", s.Fetch},
		{"podRequests.age", s.PodRequests.Age},
	} {
		if limit.value.Duration < 0 {
			return fmt.Errorf("cleaning.%s: %s is negative: 0s means no limit", limit.field, limit.value.Duration)
		}
	}
	for _, bound := range []struct {
		field string
		value int
	}{
		{"perRequester.max", s.PerRequester.Max}, {"perRequester.maxMiB", s.PerRequester.MaxMiB},
		{"podRequests.maxPerNode", s.PodRequests.MaxPerNode}, {"podRequests.maxMiBPerNode", s.PodRequests.MaxMiBPerNode},
	} {
		if bound.value < 0 {
			return fmt.Errorf("cleaning.%s: %d is negative: 0 means no limit", bound.field, bound.value)
		}
	}
	return nil
}

func (s Settings) limits() retention.Limits {
	return retention.Limits{
		Issued: s.Issued.Duration, Denied: s.Denied.Duration, Failed: s.Failed.Duration, Pending: s.Pending.Duration,
		Approved: s.Approved.Duration, Undecided: s.Undecided.Duration, Fetch: s.Fetch.Duration,
	}
}

func (s Settings) cap() retention.Cap {
	return retention.Cap{Max: s.PerRequester.Max, MaxBytes: int64(s.PerRequester.MaxMiB) << 20, Spare: s.Fetch.Duration}
}

func (s Settings) podCap() retention.Cap {
	return retention.Cap{Max: s.PodRequests.MaxPerNode, MaxBytes: int64(s.PodRequests.MaxMiBPerNode) << 20, Spare: s.Fetch.Duration}
}
