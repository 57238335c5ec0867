package budget

import "testing"

func TestAccount(t *testing.T) {
	var a Account
	a.SetLimit(100)
	a.Add(80)
	if a.Over() != 0 {
		t.Error("over")
	}
	a.Add(50)
	if a.Over() != 30 {
		t.Errorf("%d over", a.Over())
	}
	a.Add(-120)
	if got := a.TakePeak(); got != 130 {
		t.Errorf("the peak was %d", got)
	}
	if got := a.TakePeak(); got != 10 {
		t.Errorf("the peak since was %d", got)
	}
}
