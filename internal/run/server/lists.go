package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/controller/publishlists"
	"github.com/certplane/certplane/internal/controller/sign"
	"github.com/certplane/certplane/internal/inventory"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/duration"
	"github.com/certplane/certplane/internal/rights"
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
	settings RevocationConfig
	records  *inventory.Inventory
	// own returns the server's own CAs.
	own func() []publishlists.CA
	// restored is the file that "certplane backup restore" leaves; empty without a data folder.
	restored string
}

// add adds the controller of revocation lists.
func (l lists) add(a controllermanager.Actor, config controllermanager.Config) error {
	if config.Lists == nil {
		return errors.New("there is no inventory")
	}
	return a.AddLists(publishlists.Config{
		Store: config.Revoked, Lists: config.Lists,
		Held:     hold{a.Client, l.restored}.check,
		Settings: publishlists.Settings{Period: l.settings.Lists.Period.Duration, Validity: l.settings.Lists.Validity.Duration},
		CAs: func() ([]publishlists.CA, bool) {
			all, complete := config.CAs()
			return append(l.own(), all...), complete
		},
	}, config.Records)
}

type records struct{ *inventory.Inventory }

// Each implements passon.Records.
func (r records) Each(ctx context.Context, field, value string, found func(*inventoryv1alpha1.IssuedCertificate)) error {
	query := inventory.Query{Fields: fields.OneTermEqualSelector(field, value)}
	err := inventory.Each(ctx, r.Inventory, query, func(record *inventoryv1alpha1.IssuedCertificate) bool { found(record); return true })
	if err != nil {
		return fmt.Errorf("searching the inventory: %w", err)
	}
	return nil
}

// hold keeps a restored server from signing lists: it has forgotten what was revoked since the
// backup, and a list without these certificates would let them in again.
type hold struct {
	api  client.Client
	file string
}

// check returns an error until somebody has said what was revoked since the backup. It first
// turns the file of the restore into an object, which all servers see and which is in backups.
func (h hold) check(ctx context.Context) error {
	name := metav1.ObjectMeta{Namespace: rights.ServeNamespace, Name: rights.RestoredStore}
	text, err := os.ReadFile(h.file)
	switch {
	case err == nil:
		mark := &corev1.ConfigMap{ObjectMeta: name, Data: map[string]string{rights.RestoredFrom: strings.TrimSpace(string(text))}}
		if err := h.api.Create(ctx, mark); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("noting that the store was restored: %w", err)
		}
		if err := os.Remove(h.file); err != nil {
			return fmt.Errorf("noting that the store was restored: %w", err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("looking whether the store was restored: %w", err)
	}
	mark := &corev1.ConfigMap{}
	if err := h.api.Get(ctx, client.ObjectKey{Namespace: name.Namespace, Name: name.Name}, mark); err != nil {
		return client.IgnoreNotFound(err)
	}
	return fmt.Errorf("lists are on hold: the store was restored from a backup of %s: say what was revoked since, with 'certplane revocation resume --from FILE' or '--nothing'", mark.Data[rights.RestoredFrom])
}

// listCAs returns the CAs whose keys the server has for itself. The key of the client root is
// meant to be moved away after the first start, so that its list is signed at once and lives
// as long as the root.
func (c *credentials) listCAs(client sign.CA) func() []publishlists.CA {
	named := func(ca *pki.Authority) publishlists.CA {
		return publishlists.NewCA(ca.Certificate().Subject.CommonName, ca)
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
