package server

import (
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/controller/publishlists"
	"github.com/certplane/certplane/internal/controller/sign"
	"github.com/certplane/certplane/internal/inventory"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/duration"
	"github.com/certplane/certplane/internal/run/controllermanager"
)

// ListsConfig is the stanza "revocation.lists".
type ListsConfig struct {
	// period is the time after which a list is signed again although no certificate was
	// revoked; otherwise that takes a second or two. At least 1h. Default: 1d.
	Period metav1.Duration `json:"period"`
	// validity is how long a list is valid: programs that check lists refuse all
	// certificates of a CA whose list has ended. At least twice the period, at most 365d.
	// Default: 7d.
	Validity metav1.Duration `json:"validity"`
}

func defaultLists() ListsConfig {
	lists := publishlists.DefaultSettings()
	return ListsConfig{Period: metav1.Duration{Duration: lists.Period}, Validity: metav1.Duration{Duration: lists.Validity}}
}

const mostValidity = 365 * 24 * time.Hour

func (c ListsConfig) validate() error {
	period, validity := c.Period.Duration, c.Validity.Duration
	switch {
	case period < time.Hour:
		return fmt.Errorf("revocation.lists.period: %s is out of range: must be at least 1h", duration.Format(period))
	case validity < 2*period || validity > mostValidity:
		return fmt.Errorf("revocation.lists.validity: %s is out of range: must be from %s, twice the period, to %s",
			duration.Format(validity), duration.Format(2*period), duration.Format(mostValidity))
	}
	return nil
}

// lists is what the controller of revocation lists needs of the server.
type lists struct {
	settings ListsConfig
	records  *inventory.Inventory
	// own returns the server's own CAs.
	own func() []publishlists.CA
}

// add adds the controller of revocation lists.
func (l lists) add(a controllermanager.Actor, config controllermanager.Config) error {
	if l.records == nil {
		return errors.New("there is no inventory")
	}
	revocations, err := a.NewCache("Revocations", publishlists.Watched())
	if err != nil {
		return err
	}
	return publishlists.Add(a.Manager, publishlists.Config{
		Store: l.records, Lists: l.records.Lists, Rand: rand.Reader, Clock: clock.RealClock{}, Metrics: a.Metrics,
		Settings: publishlists.Settings{Period: l.settings.Period.Duration, Validity: l.settings.Validity.Duration},
		CAs: func() ([]publishlists.CA, bool) {
			all, complete := config.CAs()
			return append(l.own(), all...), complete
		},
	}, publishlists.APIConfig{Client: a.Client, Revocations: revocations})
}

// listCAs returns the CAs whose keys the server has for itself. The key of the client root is
// meant to be moved away after the first start, so that its list is signed at once and lives
// as long as the root.
func (c *credentials) listCAs(client sign.CA) func() []publishlists.CA {
	named := func(ca *pki.Authority) publishlists.CA {
		return publishlists.CA{Signer: ca.Certificate().Subject.CommonName, Authority: ca}
	}
	fixed := []publishlists.CA{named(c.servingRoot)}
	if c.clientCA.rooted {
		if root, err := readRoot(filepath.Dir(c.clientCA.issuing.certFile)); err == nil {
			ca := named(root)
			ca.Once = true
			fixed = append(fixed, ca)
		} else {
			klog.V(1).InfoS("The key of the client root is not here: its revocation list stays as it is", "problem", err.Error())
		}
	}
	return func() []publishlists.CA {
		if ca, err := client.Current(); err == nil {
			return append([]publishlists.CA{named(ca)}, fixed...)
		}
		return fixed
	}
}
