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

// ConditionReady is the type of the condition that reports whether an issuer can sign. The
// package writes no other condition.
const ConditionReady = "Ready"

// The reasons of an issuer's Ready condition.
const (
	// ReasonChecked: it can sign.
	ReasonChecked = "Checked"
	// ReasonPending: it cannot sign now, and is checked again.
	ReasonPending = "Pending"
	// ReasonFailed: it cannot sign until its spec changes.
	ReasonFailed = "Failed"
)

// Issuer is an object that describes how its requests are signed. Its CRD needs
// the status subresource with a list status.conditions, whose key is the type.
// The scope of the CRD decides whether it is for one namespace or for all.
type Issuer interface {
	client.Object
	// GetConditions returns status.conditions, which are not modified.
	GetConditions() []metav1.Condition
}

// Controller defines a controller for issuers of some kinds. Name, Kinds, Check
// and Sign are required.
type Controller struct {
	// Name identifies this controller: it is the field manager of its writes,
	// appears in Events, logs and metrics, and names the lease of leader
	// election. It must be a domain name, such as sample-issuer.example.com.
	Name string
	// Kinds are empty objects, one per kind: &v1alpha1.SampleIssuer{}. All are
	// of one API group, which must not be cert-manager.io. The controller
	// begins to work as soon as the API has all of them.
	Kinds []Issuer
	// AddToScheme registers the kinds. Nil means that they are registered
	// already.
	AddToScheme func(*runtime.Scheme) error

	// Check returns nil if an issuer can sign. It is called when an issuer is
	// new or its spec has changed, after errors, and every CheckEvery. It must
	// not change the issuer. Calls are concurrent, but never for the same
	// issuer. ctx ends after Timeout.
	Check func(ctx context.Context, issuer Issuer) error
	// Sign returns the certificate for an approved request in PEM, with as much
	// of its chain as is known: in any order, with the root or without. The
	// package sorts it. It fails the request permanently if the certificate is
	// not for the key of the request, or is a CA certificate that was not
	// requested. Calls are concurrent, but never for the same request. ctx ends
	// after Timeout.
	//
	// Sign can be called again for a request that it has answered, if the
	// answer could not be stored: the API was unavailable for too long, or the
	// process was killed. If the CA charges for certificates, pass it
	// Request.Object.GetUID(), which is the same in each call. ctx ends when
	// the controller is to stop. What Sign returns after that is still stored
	// if it returns before the manager stops waiting (30 seconds, unless its
	// options say otherwise).
	Sign func(ctx context.Context, request *Request) (chain []byte, err error)

	// DefaultDuration is the lifetime of a certificate if the request does not
	// set one. Default: 90 days.
	DefaultDuration time.Duration
	// MaxDuration is the longest lifetime that is requested from Sign. Longer requested
	// durations are shortened to it. Default: no limit.
	MaxDuration time.Duration
	// CheckEvery is how long a successful check is valid, and the longest pause
	// between checks that fail. Default: 1 minute.
	CheckEvery time.Duration
	// RetryFor is how long a request is retried after errors that are none of
	// Permanent, Invalid, Pending and NotReady. It counts from the first of
	// consecutive errors. Another answer of Sign in between ends the series, as
	// does a time in which the issuer is not ready. A new process begins to
	// count again. Default: 1 hour.
	RetryFor time.Duration
	// Timeout limits one call of Check or Sign: its context ends then. A call
	// that continues after that is not abandoned: it occupies one of the
	// Concurrency workers, and the controller logs it. Default: 1 minute.
	Timeout time.Duration
	// Concurrency is the maximum number of requests of each of the two APIs that are signed
	// at the same time, and of issuers of each kind that are checked at the same time.
	// Default: 5.
	Concurrency int

	// IgnoreSigningRequests makes the controller ignore
	// CertificateSigningRequests of certificates.k8s.io.
	IgnoreSigningRequests bool
	// AnybodyMayRefer lets every user who may create
	// CertificateSigningRequests, which have no namespace, use the issuers of
	// every namespace. Otherwise the requester needs the verb reference on the
	// issuer. Cluster-scoped issuers are for every requester.
	AnybodyMayRefer bool

	clock clock.PassiveClock
}

// maxName is the maximum length of the names of Event recorders.
const maxName = 63

// withDefaults returns c with its defaults, or an error for the first invalid
// field.
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
