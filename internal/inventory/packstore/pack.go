package packstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	recordsv1alpha1 "github.com/certplane/certplane/api/records/v1alpha1"
	"github.com/certplane/certplane/internal/inventory"
)

// maxOutside is how many records may be outside packs before they are packed: so few days
// have few writes.
const maxOutside = 8 * journalRecords

// Due reports whether there are enough records outside packs to pack them.
func (s *Store) Due() bool {
	count, _ := s.Outside()
	return count >= maxOutside
}

// Pack moves the records of all journals into packs: first it writes the packs, then it deletes
// the journals. It leaves out the journal that this process is writing to, unless all is true.
func (s *Store) Pack(ctx context.Context, all bool) error {
	s.mu.Lock()
	own := s.own
	s.mu.Unlock()
	var journals []*recordsv1alpha1.CertificatePack
	var records []*inventory.Record
	err := s.eachJournal(ctx, func(object *recordsv1alpha1.CertificatePack, found []*inventory.Record) error {
		if all || object.Name != own {
			journals, records = append(journals, object), append(records, found...)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.Put(ctx, records); err != nil {
		return err
	}
	for _, object := range journals {
		// One that its process has written to in the meantime stays.
		err := s.cfg.Client.Delete(ctx, object, client.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("deleting the CertificatePack %s: %w", object.Name, err)
		}
		if !apierrors.IsConflict(err) {
			s.resize(object.Name, nil)
		}
	}
	return nil
}

// Put writes records into packs, except those that are in packs already or would be deleted at
// once. If it fails, some of them are written.
func (s *Store) Put(ctx context.Context, records []*inventory.Record) error {
	if len(records) == 0 {
		return nil
	}
	s.mu.Lock()
	stale := s.stale
	s.mu.Unlock()
	if stale {
		if err := s.Load(ctx); err != nil {
			return err
		}
	}
	of := map[int64][]*inventory.Record{}
	for _, record := range records {
		if number := inventory.DayOf(record); number >= s.FirstKept() {
			of[number] = append(of[number], record)
		} else {
			s.Drop(record)
		}
	}
	for _, number := range slices.Sorted(maps.Keys(of)) {
		missing, err := s.WithoutPacked(ctx, number, of[number])
		if err != nil {
			return err
		}
		if err := s.putOn(ctx, number, missing); err != nil {
			return err
		}
		s.Drop(of[number]...)
	}
	return nil
}

// putOn writes records of a day into its last pack, and into new ones. It fails if another
// process has changed these since Load: so no record gets into two packs.
func (s *Store) putOn(ctx context.Context, number int64, records []*inventory.Record) (err error) {
	if name, room := s.LastPack(number); room && len(records) > 0 {
		if records, err = s.extend(ctx, name, number, records); err != nil {
			return err
		}
	}
	for len(records) > 0 {
		s.mu.Lock()
		n, known := s.last[number]
		if known {
			n++
		}
		s.mu.Unlock()
		object := &recordsv1alpha1.CertificatePack{ObjectMeta: metav1.ObjectMeta{Namespace: s.cfg.Namespace, Name: packName(number, n)}}
		if records, err = s.write(ctx, object, nil, number, n, records); err != nil {
			return err
		}
	}
	return nil
}

// extend writes records into the last pack of a day, and returns those that have no room.
func (s *Store) extend(ctx context.Context, name string, number int64, records []*inventory.Record) ([]*inventory.Record, error) {
	object := &recordsv1alpha1.CertificatePack{}
	err := s.cfg.Client.Get(ctx, client.ObjectKey{Namespace: s.cfg.Namespace, Name: name}, object)
	if apierrors.IsNotFound(err) {
		return records, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the CertificatePack %s: %w", name, err)
	}
	value, err := packIn(object)
	if err := s.tolerate(err); err != nil {
		return nil, err
	}
	if value == nil {
		return records, nil
	}
	_, n, err := parseName(name)
	if err != nil {
		return nil, err
	}
	return s.write(ctx, object, value, number, n, records)
}

// write writes records into an object, after those in value, and returns the rest.
func (s *Store) write(ctx context.Context, object *recordsv1alpha1.CertificatePack, value []byte, number, n int64, records []*inventory.Record) ([]*inventory.Record, error) {
	value, rest, err := inventory.Pack(value, records)
	if err != nil && object.ResourceVersion != "" {
		return records, s.tolerate(damaged(object, err))
	}
	if err != nil {
		return nil, fmt.Errorf("packing records: %w", err)
	}
	if len(rest) == len(records) {
		return rest, nil
	}
	labels := map[string]string{recordsv1alpha1.StateLabel: recordsv1alpha1.Packed, recordsv1alpha1.DayLabel: dayText(number)}
	if err := fill(object, value, labels); err != nil {
		return nil, err
	}
	if object.ResourceVersion == "" {
		err = s.cfg.Client.Create(ctx, object)
	} else {
		err = s.cfg.Client.Update(ctx, object)
	}
	if err != nil {
		s.mu.Lock()
		s.stale = true
		s.mu.Unlock()
		return nil, fmt.Errorf("writing the CertificatePack %s: %w", object.Name, err)
	}
	s.resize(object.Name, object)
	s.mu.Lock()
	s.last[number] = max(s.last[number], n)
	s.mu.Unlock()
	head, err := headOf(object)
	if err != nil {
		return nil, err
	}
	return rest, s.SetPack(object.Name, number, n, head)
}

// nearlyFull is the share of MaxBytes from which records of ended certificates are deleted
// before their time.
const nearlyFull = 0.9

// Clean deletes the packs of certificates that have ended, Keep after that; and earlier, the
// oldest first, while the packs take nearly MaxBytes.
func (s *Store) Clean(ctx context.Context) error {
	if err := s.Load(ctx); err != nil {
		return err
	}
	if _, first := s.Outside(); first < s.FirstKept() {
		if err := s.Pack(ctx, true); err != nil {
			return err
		}
	}
	s.mu.Lock()
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(s.sizes)), func(name string) bool { return strings.HasPrefix(name, journalPrefix) })
	s.mu.Unlock()
	for _, name := range names { // the earliest day first
		number, n, err := parseName(name)
		if err != nil {
			continue
		}
		if number >= s.FirstKept() && (number >= s.Today() || s.Used() < nearlyFull) {
			break
		}
		object := &recordsv1alpha1.CertificatePack{ObjectMeta: metav1.ObjectMeta{Namespace: s.cfg.Namespace, Name: name}}
		if err := client.IgnoreNotFound(s.cfg.Client.Delete(ctx, object)); err != nil {
			return fmt.Errorf("deleting the records of ended certificates: %w", err)
		}
		s.resize(name, nil)
		s.RemovePack(number, n)
	}
	return nil
}
