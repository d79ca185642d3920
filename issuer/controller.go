package issuer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
)

// ConditionReady is the type of an issuer's condition that says whether it can
// sign. The package writes it and no other.
const ConditionReady = "Ready"

// The reasons of an issuer's Ready condition.
const (
	// ReasonChecked: it can sign.
	ReasonChecked = "Checked"
	// ReasonPending: it cannot sign now, and is looked at again.
	ReasonPending = "Pending"
	// ReasonFailed: it cannot sign until its spec changes.
	ReasonFailed = "Failed"
)

// Issuer is an object of a kind that says who signs. Its definition needs the
// status subresource with a list status.conditions, whose key is the type.
// Whether it is for one namespace or for all is up to the scope of its
// definition.
type Issuer interface {
	client.Object
	// GetConditions returns status.conditions, which are not modified.
	GetConditions() []metav1.Condition
}

// Controller says what to do for issuers of some kinds. Name, Kinds, Check and
// Sign are required.
type Controller struct {
	// Name tells this controller from all others: as the field manager of what
	// it writes, in Events, logs and metrics, and as the lease of leader
	// election. It must be the name of a domain, as sample-issuer.example.com.
	Name string
	// Kinds are empty objects, one a kind: &v1alpha1.SampleIssuer{}. All are of
	// one API group, which must not be cert-manager.io. The controller begins to
	// work as soon as the API has all of them.
	Kinds []Issuer
	// AddToScheme registers the kinds. Nil: they are registered already.
	AddToScheme func(*runtime.Scheme) error

	// Check reports whether an issuer can sign: nil if it can. It is called when
	// an issuer is new or its spec has changed, after errors, and every
	// CheckEvery. It must not change the issuer. Calls are concurrent, for one
	// issuer one after the other. ctx ends after Timeout.
	Check func(ctx context.Context, issuer Issuer) error
	// Sign returns the certificate for a request that somebody has approved, in
	// PEM, with all that is known of its chain: in any order, with the root or
	// without. The package sorts it and refuses, for good, one that is not for
	// the key of the request, or is of a CA where none was asked for. Calls are
	// concurrent, for one request one after the other. ctx ends after Timeout.
	//
	// Sign can be called again for a request that it has answered, if the answer
	// could not be stored: the API was away for too long, or the process was
	// killed. A CA for which a certificate costs should be told
	// Request.Object.GetUID(), which is the same each time. When the controller
	// is to stop, ctx ends; what Sign returns even so is stored, if it does that
	// before the manager stops waiting (30 seconds, unless its options say
	// otherwise).
	Sign func(ctx context.Context, request *Request) (chain []byte, err error)

	// DefaultDuration is how long a certificate is to live if the request does
	// not say. Default: 90 days.
	DefaultDuration time.Duration
	// MaxDuration is the most that Sign is asked for: longer wishes are cut.
	// Default: no limit.
	MaxDuration time.Duration
	// CheckEvery is how long a successful check holds, and the longest pause
	// between checks that fail. Default: 1 minute.
	CheckEvery time.Duration
	// RetryFor is for how long a request is tried again after errors that say
	// nothing else, counted from the first of them in a row. What Sign says in
	// between ends the row, as does a time in which the issuer is not ready; a
	// process that begins to work begins to count. Default: 1 hour.
	RetryFor time.Duration
	// Timeout is for one call of Check or Sign: its context ends then. A call
	// that goes on nevertheless is not given up, but holds one of the Concurrency
	// places, and the log says so. Default: 1 minute.
	Timeout time.Duration
	// Concurrency is how many requests of each of the two APIs are signed at a
	// time, and how many issuers of a kind are checked. Default: 5.
	Concurrency int

	// IgnoreSigningRequests leaves CertificateSigningRequests of
	// certificates.k8s.io alone.
	IgnoreSigningRequests bool
	// AnybodyMayRefer lets everybody who may create CertificateSigningRequests,
	// which have no namespace, use the issuers of every namespace. Otherwise
	// they need the verb reference on the issuer. Issuers without a namespace
	// are for everybody.
	AnybodyMayRefer bool

	clock clock.PassiveClock
}

// maxName is what the names of recorders of Events can have.
const maxName = 63

// withDefaults reports the first field that cannot work.
func (c Controller) withDefaults() (Controller, error) {
	c.DefaultDuration = cmp.Or(c.DefaultDuration, certmanager.DefaultDuration)
	c.CheckEvery = cmp.Or(c.CheckEvery, time.Minute)
	c.RetryFor = cmp.Or(c.RetryFor, time.Hour)
	c.Timeout = cmp.Or(c.Timeout, time.Minute)
	c.Concurrency = cmp.Or(c.Concurrency, 5)
	if c.clock == nil {
		c.clock = clock.RealClock{}
	}
	problems := validation.IsDNS1123Subdomain(c.Name)
	switch {
	case len(problems) > 0:
		return c, fmt.Errorf("field Name: %q: %s", c.Name, strings.Join(problems, "; "))
	case len(c.Name) > maxName:
		return c, fmt.Errorf("field Name: %q is longer than %d bytes", c.Name, maxName)
	case len(c.Kinds) == 0:
		return c, errors.New("field Kinds: name at least one kind of issuer")
	case c.Check == nil:
		return c, errors.New("field Check: missing")
	case c.Sign == nil:
		return c, errors.New("field Sign: missing")
	case c.MaxDuration < 0:
		return c, fmt.Errorf("field MaxDuration: %v must not be negative", c.MaxDuration)
	case c.Concurrency < 0:
		return c, fmt.Errorf("field Concurrency: %d must not be negative", c.Concurrency)
	}
	for _, field := range []struct {
		name  string
		value time.Duration
	}{{"DefaultDuration", c.DefaultDuration}, {"CheckEvery", c.CheckEvery}, {"RetryFor", c.RetryFor}, {"Timeout", c.Timeout}} {
		if field.value < 0 {
			return c, fmt.Errorf("field %s: %v must not be negative", field.name, field.value)
		}
	}
	return c, nil
}
