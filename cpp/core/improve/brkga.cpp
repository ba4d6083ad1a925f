#include "improve/brkga.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <tuple>

#include "improve/pause.hpp"

// Baseline x86-64 has narrow vectors without 64-bit products. On a better processor the loader picks a clone compiled
// for it; all clones compute the same. The sanitizers do not work with the loader's hook, and older compilers do not
// know the names.
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && __GNUC__ >= 12 && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define PLACEWRIGHT_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define PLACEWRIGHT_CLONES
#endif

namespace placewright {

namespace {

enum Purpose : uint64_t { kDraw = 1, kCrossover = 3 };

// Keys drawn at a time: their random words fill a few vectors.
constexpr size_t kBlock = 64;
static_assert(std::endian::native == std::endian::little, "words of random bits are read as smaller numbers in place");

void require(bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(what);
}

// Draws uniform keys, two from each word of the stream.
PLACEWRIGHT_CLONES void draw_keys(const RandomStream& stream, Key* keys, size_t n) {
    std::array<uint64_t, kBlock / 2> words;
    for (size_t i = 0; i < n; i += kBlock) {
        for (size_t j = 0; j < words.size(); ++j) words[j] = stream.bits(i / 2 + j);
        std::memcpy(keys + i, words.data(), std::min(kBlock, n - i) * sizeof(Key));
    }
}

// Takes each key of `child` from `elite` if a draw of 16 bits is below `threshold`, else from `other`.
PLACEWRIGHT_CLONES void cross_keys(const RandomStream& stream, uint32_t threshold, const Key* __restrict elite,
                                   const Key* __restrict other, Key* __restrict child, size_t n) {
    std::array<uint64_t, kBlock / 4> words;
    std::array<uint16_t, kBlock> draws;
    for (size_t i = 0; i < n; i += kBlock) {
        for (size_t j = 0; j < words.size(); ++j) words[j] = stream.bits(i / 4 + j);
        std::memcpy(draws.data(), words.data(), sizeof(draws));
        const size_t count = std::min(kBlock, n - i);
        for (size_t j = 0; j < count; ++j) child[i + j] = draws[j] < threshold ? elite[i + j] : other[i + j];
    }
}

void check(const BrkgaConfig& c) {
    require(c.population >= 2, "population must be at least 2");
    require(c.elites >= 1 && c.mutants >= 0 && c.elites + c.mutants <= c.population,
            "elites and mutants must fit into the population");
    require(c.elites < c.population, "elites must leave room for others");
    require(c.elite_bias >= 0.5 && c.elite_bias < 1.0, "elite_bias must lie in [0.5, 1)");
    require(c.populations >= 1 && c.exchange_interval >= 1, "populations and exchange_interval must be at least 1");
    require(c.exchanged >= 0 && int64_t(c.exchanged) * (c.populations - 1) <= c.population - c.elites,
            "exchanged individuals must fit beside the elites");
}

}  // namespace

Brkga::Brkga(std::shared_ptr<const Problem> problem, const BrkgaConfig& config, std::optional<KeyProposal> proposal,
             std::vector<std::vector<Key>> seeds, uint64_t seed, int32_t threads)
    : problem_(std::move(problem)),
      config_(config),
      proposal_(std::move(proposal)),
      seeds_(std::move(seeds)),
      seed_(seed),
      num_keys_(size_t(num_keys(*problem_, config.decoder))),
      pool_(threads) {
    check(config_);
    if (proposal_) proposal_->check(num_keys_);
    for (const auto& chromosome : seeds_)
        require(chromosome.size() == num_keys_, "a seed has the wrong number of keys");
    require(seeds_.size() <= size_t(config_.population) * config_.populations, "more seeds than individuals");
    scratch_.reserve(pool_.num_threads());
    for (int32_t i = 0; i < pool_.num_threads(); ++i) scratch_.emplace_back(*problem_, config_.decoder);
    populations_.resize(config_.populations);
    for (Population& population : populations_) {
        for (int32_t i = 0; i < config_.population; ++i) population.members.push_back(std::make_unique<Individual>());
        for (int32_t i = config_.elites; i < config_.population; ++i)
            population.spare.push_back(std::make_unique<Individual>());
    }
}

// In a generation the elites stay, newcomers are bred into spare buffers and evaluated, and all are sorted. A budget
// may end inside a generation; a larger one then continues from there.
void Brkga::advance(int64_t evaluations, int64_t at_most) {
    const int64_t pause = pause_at(evaluations_, evaluations, at_most);
    while (evaluations_ < pause) {
        const auto count = static_cast<int32_t>(std::min<int64_t>(pause - evaluations_, num_newcomers() - bred_));
        pool_.run(count, [this](int32_t item, int32_t thread) { add_newcomer(item, scratch_[size_t(thread)]); });
        bred_ += count;
        evaluations_ += count;
        if (bred_ == num_newcomers()) turn_generation();
    }
}

void Brkga::evolve(int64_t generations) {
    for (; generations > 0; --generations) advance(evaluations_ + num_newcomers() - bred_);
}

int32_t Brkga::num_newcomers() const {
    return (generation_ == 0 ? config_.population : config_.population - config_.elites) * config_.populations;
}

void Brkga::turn_generation() {
    for (Population& population : populations_) {
        if (generation_ > 0)
            std::ranges::swap_ranges(population.spare, std::span(population.members).subspan(size_t(config_.elites)));
        sort_by_fitness(population);
    }
    bred_ = 0;
    ++generation_;
    if (config_.populations > 1 && generation_ % config_.exchange_interval == 0) exchange_best();
}

// Includes the newcomers of a generation that is not over.
const Brkga::Individual& Brkga::best_individual() const {
    const Individual* best = populations_.front().members.front().get();
    const auto consider = [&](const Individual& other) {
        if (other.fitness < best->fitness) best = &other;
    };
    for (const Population& population : populations_) consider(*population.members.front());
    for (int32_t i = 0; i < bred_; ++i) consider(newcomer(i));
    return *best;
}

// Newcomers are dealt to the populations in turn.
Brkga::Individual& Brkga::newcomer(int32_t number) const {
    const Population& home = populations_[size_t(number % config_.populations)];
    const auto slot = size_t(number / config_.populations);
    return generation_ == 0 ? *home.members[slot] : *home.spare[slot];
}

void Brkga::add_newcomer(int32_t item, Scratch& scratch) {
    const int32_t number = bred_ + item;
    const int32_t slot = number / config_.populations;
    Individual& child = newcomer(number);
    child.keys.resize(num_keys_);
    breed(number % config_.populations, generation_ == 0 ? slot : config_.elites + slot, child);
    child.born = evaluations_ + item;
    evaluate(child, scratch);
}

// `member` is the place in the next generation: elites come first, then children, then mutants.
void Brkga::breed(int32_t population, int32_t member, Individual& child) const {
    const auto individual = static_cast<uint64_t>(population) * config_.population + member;
    const auto generation = static_cast<uint64_t>(generation_);
    if (generation_ == 0) {
        const size_t seed = size_t(member) * config_.populations + population;
        if (seed < seeds_.size())
            child.keys = seeds_[seed];
        else
            draw_mutant({seed_, generation, individual, kDraw}, child.keys);
    } else if (member < config_.population - config_.mutants) {
        cross({seed_, generation, individual, kCrossover}, populations_[size_t(population)], child.keys);
    } else {
        draw_mutant({seed_, generation, individual, kDraw}, child.keys);
    }
}

void Brkga::draw_mutant(const RandomStream& stream, std::vector<Key>& keys) const {
    draw_keys(stream, keys.data(), keys.size());
    if (!proposal_) return;
    const uint16_t* row = proposal_->row.data();
    for (size_t i = 0; i < keys.size(); ++i) keys[i] = proposal_->tables->draw(row[i], keys[i]);
}

// Each key comes from the elite parent with probability elite_bias (in steps of 2^-16), else from the other.
void Brkga::cross(const RandomStream& stream, const Population& parents, std::vector<Key>& child) const {
    const auto elites = static_cast<uint32_t>(config_.elites);
    const auto others = static_cast<uint32_t>(config_.population) - elites;
    const Key* elite = parents.members[stream.below(~uint64_t{1}, elites)]->keys.data();
    const Key* other = parents.members[elites + stream.below(~uint64_t{2}, others)]->keys.data();
    const auto threshold = static_cast<uint32_t>(std::lround(config_.elite_bias * 65536));
    cross_keys(stream, threshold, elite, other, child.data(), child.size());
}

void Brkga::evaluate(Individual& individual, Scratch& scratch) const {
    const auto [device_of, order] = scratch.decoder->decode(individual.keys);
    individual.fitness = placewright::evaluate(*problem_, device_of, order, scratch.simulation);
}

MeanDecisions Brkga::mean_decisions() {
    if (generation_ == 0) throw std::logic_error("the first generation is not over");
    const auto num_ops = size_t(problem_->num_ops), num_devices = size_t(problem_->num_devices);
    MeanDecisions mean{std::vector<float>(num_ops * num_devices), std::vector<float>(num_ops)};
    const float weight = 1.0f / float(config_.population * config_.populations);
    const float last_position = std::max(1.0f, float(num_ops - 1));
    for (const Population& population : populations_)
        for (const auto& member : population.members) {
            const auto [device_of, order] = scratch_.front().decoder->decode(member->keys);
            for (size_t op = 0; op < num_ops; ++op) mean.share[op * num_devices + size_t(device_of[op])] += weight;
            float position = 0;
            for (const Step& step : order)
                if (step.is_op()) mean.position[size_t(step.id)] += weight * position++ / last_position;
        }
    return mean;
}

// Among equals the older comes first. (A stable sort would allocate.)
void Brkga::sort_by_fitness(Population& population) {
    std::ranges::sort(population.members, [](const auto& a, const auto& b) {
        return std::tie(a->fitness, a->born) < std::tie(b->fitness, b->born);
    });
}

// Replaces the worst of every population by the best of all others.
void Brkga::exchange_best() {
    const auto count = static_cast<size_t>(config_.exchanged);
    std::vector<std::vector<Individual>> best(populations_.size());
    for (size_t i = 0; i < populations_.size(); ++i)
        for (size_t k = 0; k < count; ++k) best[i].push_back(*populations_[i].members[k]);
    for (size_t i = 0; i < populations_.size(); ++i) {
        size_t worst = populations_[i].members.size();
        for (size_t j = 0; j < populations_.size(); ++j)
            for (size_t k = 0; k < count && j != i; ++k) *populations_[i].members[--worst] = best[j][k];
        sort_by_fitness(populations_[i]);
    }
}

}  // namespace placewright
