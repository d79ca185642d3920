package policies

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/quota"
)

const (
	// ledgerShards is the number of ConfigMaps. Each quota is counted in one of them,
	// so that a write contains a sixteenth of all counts.
	ledgerShards = 16
	ledgerPrefix = "certplane-policy-quota-"
	// ledgerField is the field with the approvals in a ConfigMap, payersField the field
	// with the tenants that caused them.
	ledgerField = "approvals"
	payersField = "payers"
	// ledgerFresh is the maximum age of a copy that may refuse a request: other
	// programs may have deleted the ConfigMap.
	ledgerFresh = time.Second
	// ledgerAttempts limits how often an approval is counted again after another
	// process has counted one at the same time.
	ledgerAttempts = 20
)

// LedgerNames returns the names of the ConfigMaps in which the quotas of policies
// are counted.
func LedgerNames() []string {
	var names []string
	for i := range ledgerShards {
		names = append(names, ledgerName(i))
	}
	return names
}

func ledgerName(shard int) string {
	return ledgerPrefix + strconv.FormatInt(int64(shard), ledgerShards)
}

// place returns the key and the ConfigMap of a quota's count.
func place(q certpolicy.Quota) (key quota.Key, shard int) {
	key = quota.KeyOf(q.Policy, q.Name, string(q.By), q.Key)
	return key, int(key[0]) % ledgerShards
}

func limitOf(q certpolicy.Quota) quota.Limit {
	return quota.Limit{Certificates: int(q.Certificates), Per: q.Per}
}

// ledger counts approvals in ConfigMaps. All processes that decide write them
// with the version that they have read, so that no approval is lost, and none is
// let through that is not counted. It is safe for concurrent use.
type ledger struct {
	api    corev1client.ConfigMapInterface
	clock  clock.PassiveClock
	shards [ledgerShards]*ledgerShard
}

// ledgerShard is the copy of a ConfigMap.
type ledgerShard struct {
	name string
	// busy has an element while a goroutine uses the fields below.
	busy chan struct{}
	// counted is nil if the content of the ConfigMap is not known.
	counted *quota.Ledger
	// object is the ConfigMap without its content. It has no version if there is
	// none.
	object *corev1.ConfigMap
	// read is when it was read or written.
	read time.Time
}

func newLedger(api corev1client.ConfigMapInterface, clock clock.PassiveClock) *ledger {
	l := &ledger{api: api, clock: clock}
	for i := range l.shards {
		l.shards[i] = &ledgerShard{name: ledgerName(i), busy: make(chan struct{}, 1)}
	}
	return l
}

func (s *ledgerShard) lock(ctx context.Context) error {
	select {
	case s.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the ledger of quotas: %w", ctx.Err())
	}
}

func (s *ledgerShard) unlock() { <-s.busy }

// load reads the ConfigMap of a shard, which must be locked, as must those below.
func (l *ledger) load(ctx context.Context, s *ledgerShard) error {
	s.counted = nil
	object, err := l.api.Get(ctx, s.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		object = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: s.name, Labels: map[string]string{"app.kubernetes.io/managed-by": "certplane"}}}
	case err != nil:
		return fmt.Errorf("reading the ledger of quotas: %w", err)
	}
	counted, err := ledgerOf(object)
	if err != nil {
		return err
	}
	s.counted, s.object, s.read = counted, object, l.clock.Now()
	object.BinaryData = nil
	return nil
}

// ledgerOf returns what a ConfigMap has.
func ledgerOf(object *corev1.ConfigMap) (*quota.Ledger, error) {
	data, written := object.BinaryData[ledgerField]
	if !written {
		return quota.New(), nil
	}
	counted, err := quota.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("the ConfigMap %s cannot be read; delete it, and its quotas start from zero: %w", object.Name, err)
	}
	counted.DecodePayers(object.BinaryData[payersField])
	return counted, nil
}

// use returns how much of a quota is used. What would refuse a request is read
// again if it is old.
func (l *ledger) use(ctx context.Context, s *ledgerShard, q certpolicy.Quota, uid string) (quota.Use, error) {
	if s.counted == nil {
		if err := l.load(ctx, s); err != nil {
			return quota.Use{}, err
		}
	}
	key, _ := place(q)
	now := l.clock.Now()
	use := s.counted.Use(key, limitOf(q), uid, now)
	if !use.Fits() && now.Sub(s.read).Abs() > ledgerFresh {
		if err := l.load(ctx, s); err != nil {
			return quota.Use{}, err
		}
		use = s.counted.Use(key, limitOf(q), uid, now)
	}
	return use, nil
}

// look returns how much of quotas is used, for the request with a UID.
func (l *ledger) look(ctx context.Context, quotas []certpolicy.Quota, uid string) (map[certpolicy.Quota]certpolicy.QuotaUse, error) {
	if len(quotas) == 0 {
		return nil, nil
	}
	uses := map[certpolicy.Quota]certpolicy.QuotaUse{}
	for _, q := range quotas {
		use, err := l.lookAt(ctx, q, uid)
		if err != nil {
			return nil, err
		}
		uses[q] = factOf(use)
	}
	return uses, nil
}

func (l *ledger) lookAt(ctx context.Context, q certpolicy.Quota, uid string) (quota.Use, error) {
	_, shard := place(q)
	s := l.shards[shard]
	if err := s.lock(ctx); err != nil {
		return quota.Use{}, err
	}
	defer s.unlock()
	return l.use(ctx, s, q, uid)
}

func factOf(use quota.Use) certpolicy.QuotaUse {
	return certpolicy.QuotaUse{Used: int32(use.Used), Counted: use.Counted, Again: use.Again}
}

// count counts the approval of the request with a UID, unless it has been
// counted. It reports false if it does not fit; then nothing is counted, unless
// another process has just counted another approval in one of several quotas.
func (l *ledger) count(ctx context.Context, quotas []certpolicy.CountedQuota, uid string) (fits bool, err error) {
	of := map[int][]certpolicy.CountedQuota{}
	for _, q := range quotas {
		_, shard := place(q.Quota)
		of[shard] = append(of[shard], q)
	}
	var order []int // the same for all, so that nobody waits for one who waits
	for shard := range of {
		order = append(order, shard)
	}
	slices.Sort(order)
	for _, shard := range order {
		s := l.shards[shard]
		if err := s.lock(ctx); err != nil {
			return false, err
		}
		defer s.unlock()
	}
	for _, shard := range order {
		if fits, err := l.fit(ctx, l.shards[shard], of[shard], uid); err != nil || !fits {
			return false, err
		}
	}
	for _, shard := range order {
		if fits, err := l.write(ctx, l.shards[shard], of[shard], uid); err != nil || !fits {
			return false, err
		}
	}
	return true, nil
}

func (l *ledger) fit(ctx context.Context, s *ledgerShard, quotas []certpolicy.CountedQuota, uid string) (bool, error) {
	for _, q := range quotas {
		use, err := l.use(ctx, s, q.Quota, uid)
		if err != nil || !use.Fits() && !q.Over {
			return false, err
		}
	}
	return true, nil
}

// errContended means that other processes have counted during each attempt.
var errContended = errors.New("other processes write the ledger of quotas; try again")

// write counts the approval in one ConfigMap.
func (l *ledger) write(ctx context.Context, s *ledgerShard, quotas []certpolicy.CountedQuota, uid string) (fits bool, err error) {
	for range ledgerAttempts {
		if fits, err := l.fit(ctx, s, quotas, uid); err != nil || !fits {
			return false, err
		}
		now, changed := l.clock.Now(), false
		for _, q := range quotas {
			key, _ := place(q.Quota)
			changed = s.counted.Count(key, quota.PayerOf(q.Payer), limitOf(q.Quota), uid, now) || changed
		}
		if !changed {
			return true, nil
		}
		data, err := s.counted.Encode(now)
		if err == nil {
			err = l.store(ctx, s, map[string][]byte{ledgerField: data, payersField: s.counted.EncodePayers()})
		}
		if err == nil {
			return true, nil
		}
		s.counted = nil // what is stored has to be read
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			return false, fmt.Errorf("counting an approval in the ConfigMap %s: %w", s.name, err)
		}
	}
	return false, errContended
}

// store writes the ConfigMap if it has not changed since it was read.
func (l *ledger) store(ctx context.Context, s *ledgerShard, data map[string][]byte) error {
	object := s.object.DeepCopy()
	object.BinaryData = data
	write := func() (*corev1.ConfigMap, error) { return l.api.Update(ctx, object, metav1.UpdateOptions{}) }
	if object.ResourceVersion == "" {
		write = func() (*corev1.ConfigMap, error) { return l.api.Create(ctx, object, metav1.CreateOptions{}) }
	}
	written, err := write()
	if err != nil {
		return err
	}
	written.BinaryData = nil
	s.object, s.read = written, l.clock.Now()
	return nil
}
