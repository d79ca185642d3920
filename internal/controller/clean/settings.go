package clean

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/policy/retention"
)

// Settings is the stanza "cleaning".
type Settings struct {
	// issued is how long a request is kept that has its certificate, counted
	// from its approval. Whoever asked must have fetched the certificate by
	// then. 0s keeps it until the certificate has expired. Default: 1h, as in
	// Kubernetes.
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
	// undecided is how long a request is kept that has conditions, but none
	// that the other limits count from: remarks of other clients, without a decision.
	// Kubernetes keeps these forever, as 0s does. Default: 168h, a week.
	Undecided metav1.Duration `json:"undecided"`
	// fetch is how long an outcome stays at least, so that the requester
	// can see it: neither "issued" nor perRequester nor podRequests.maxPerNode takes
	// a certificate sooner.
	// Default: 5m.
	Fetch metav1.Duration `json:"fetch"`
	// perRequester bounds how many requests there are of one requester.
	PerRequester CapSettings `json:"perRequester"`
	// podRequests rules PodCertificateRequests, where the API has them.
	PodRequests PodSettings `json:"podRequests"`
}

// PodSettings is the stanza "cleaning.podRequests".
type PodSettings struct {
	// age is how long a request is kept, counted from its creation, whatever
	// its outcome. Nodes read outcomes within seconds, and make a new request
	// when one goes that has none. 0s keeps requests until their pods are
	// gone. Default: 15m, as in Kubernetes.
	Age metav1.Duration `json:"age"`
	// maxPerNode is how many requests there may be whose spec.nodeName is the
	// same. Of more, the oldest are deleted, as with "perRequester": a node
	// that asks in a loop cannot fill the store. It has to leave room for all
	// certificates of a node's pods at once. 0 is no bound. Default: 2000.
	MaxPerNode int `json:"maxPerNode"`
	// maxMiBPerNode is how large these may be together, in MiB. 0 is no bound.
	// Default: 64.
	MaxMiBPerNode int `json:"maxMiBPerNode"`
}

// CapSettings is the stanza "cleaning.perRequester".
type CapSettings struct {
	// max is how many requests there may be whose spec.username is the same:
	// of a user, a node, a service account. Of more, the oldest are deleted:
	// first those with an outcome, then those without a decision; neither
	// before the time of "fetch" is over, unless there are ten times as many.
	// Approved requests that wait for their certificate stay. So a client that
	// asks in a loop cannot fill the store. 0 is no bound. Default: 5000.
	Max int `json:"max"`
	// maxMiB is how large these may be together, in MiB: of more, the oldest go
	// in the same way. 0 is no bound. Default: 128.
	MaxMiB int `json:"maxMiB"`
	// exemptGroups are groups whose members may have any number of requests.
	// Default: system:masters.
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
			return fmt.Errorf("cleaning.%s: %s is negative: 0s is no limit", limit.field, limit.value.Duration)
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
			return fmt.Errorf("cleaning.%s: %d is negative: 0 is no bound", bound.field, bound.value)
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
