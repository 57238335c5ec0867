package replica

import (
	crand "crypto/rand"
	"os"
	"strconv"
	"testing"
	"time"

	"redoubt/internal/race"
)

// REDOUBT_SIM is how long the simulations run ("10m"), and REDOUBT_SIM_SEED the seed of
// the only history to run. Else they run for some seconds.
func simTime(t *testing.T, short time.Duration) time.Duration {
	if race.Enabled || testing.Short() {
		short /= 2
	}
	if text := os.Getenv("REDOUBT_SIM"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("REDOUBT_SIM: %v", err)
		}
		return d
	}
	return short
}

// runSimulations runs histories until the time is over. The library draws its election timeouts
// from crypto/rand, which is replaced: these tests are not parallel.
func runSimulations(t *testing.T, o simOptions, short time.Duration) {
	defer keepRandom()()
	seed, one := uint64(time.Now().UnixNano()), false
	if text := os.Getenv("REDOUBT_SIM_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("REDOUBT_SIM_SEED: %v", err)
		}
		seed, one = n, true
	}
	start, histories := time.Now(), 0
	var sum world
	operations := 0
	for end := start.Add(simTime(t, short)); histories == 0 || !one && time.Now().Before(end); seed++ {
		w := simulate(seed, o)
		histories++
		if w.failed != nil {
			t.Fatalf("seed %d (REDOUBT_SIM_SEED=%[1]d): %v", seed, w.failed)
		}
		operations += len(w.history)
		sum.elections, sum.cuts, sum.voids, sum.unknowns = sum.elections+w.elections, sum.cuts+w.cuts, sum.voids+w.voids, sum.unknowns+w.unknowns
		sum.leaseReads, sum.followerReads, sum.crashes = sum.leaseReads+w.leaseReads, sum.followerReads+w.followerReads, sum.crashes+w.crashes
		sum.returns += w.returns
		sum.entries = append(sum.entries, w.entries...)
	}
	t.Logf("%d histories, %.0f a minute, the last with seed %d: %d operations, %d entries, %d elections, %d crashes, %d returns, %d cuts, %d void writes, %d of unknown outcome, %d reads by lease, %d by read index",
		histories, float64(histories)/time.Since(start).Minutes(), seed-1, operations, len(sum.entries), sum.elections, sum.crashes, sum.returns, sum.cuts, sum.voids, sum.unknowns, sum.leaseReads, sum.followerReads)
	if one {
		return
	}
	if sum.elections < histories || operations < 10*histories || sum.leaseReads == 0 || sum.followerReads == 0 || sum.crashes == 0 || sum.returns == 0 {
		t.Error("too little has happened")
	}
}

// keepRandom returns what puts the source back that simulations replace.
func keepRandom() func() {
	old := crand.Reader
	return func() { crand.Reader = old }
}

func TestSimulation(t *testing.T) { runSimulations(t, simOptions{}, 4*time.Second) }

func TestSimulationOnJournals(t *testing.T) {
	runSimulations(t, simOptions{journals: true}, 4*time.Second)
}

// A simulation that could not fail would show nothing: what breaks a promise is found.
func TestSimulationFinds(t *testing.T) {
	defer keepRandom()()
	for name, o := range map[string]simOptions{
		"reads without a lease":             {staleReads: true},
		"power cuts with everysec":          {forgetful: true},
		"power cuts of journals":            {forgetful: true, journals: true},
		"nodes that return in haste":        {hasty: true},
		"memory that keeps what was voided": {keepVoid: true},
	} {
		t.Run(name, func(t *testing.T) {
			start, seed := time.Now(), uint64(time.Now().UnixNano())
			for n := 1; ; n++ {
				if w := simulate(seed+uint64(n), o); w.failed != nil {
					t.Logf("after %d histories: %v", n, w.failed)
					return
				}
				if time.Since(start) > 2*time.Minute {
					t.Fatalf("not found in %d histories from seed %d on", n, seed)
				}
			}
		})
	}
}

// A seed makes the same history each time.
func TestSimulationRepeats(t *testing.T) {
	defer keepRandom()()
	seed := uint64(time.Now().UnixNano())
	first := simulate(seed, simOptions{}).fingerprint()
	for range 3 {
		if again := simulate(seed, simOptions{}).fingerprint(); again != first {
			t.Fatalf("seed %d: %x, then %x", seed, first, again)
		}
	}
	if other := simulate(seed+1, simOptions{}).fingerprint(); other == first {
		t.Errorf("seeds %d and %d: the same history", seed, seed+1)
	}
}
